"""The lines that compute a softmax over the first dimension are read from the syntax."""

from __future__ import annotations

import ast

import pytest

from proxy_wrapper.code_lines.softmax_lines import softmax_lines


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("F.softmax(scores, dim=0)", [2]),
        ("torch.softmax(scores, 0)", [2]),
        ("scores.softmax(0)", [2]),
        ("nn.Softmax(dim=0)(scores)", [2]),
        ("scores.log_softmax(dim=0)", [2]),
        ("scores.softmax(-1)", []),
        ("F.softmax(scores, dim=1)", []),
        ("scores.sum(0)", []),
    ],
)
def test_lines_with_a_softmax_over_the_first_dimension(code: str, lines: list[int]) -> None:
    (function,) = ast.parse(f"def forward(scores):\n    return {code}").body
    assert isinstance(function, ast.FunctionDef)
    assert list(softmax_lines(function)) == lines
