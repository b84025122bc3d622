"""The lines that draw from a distribution are told from those that draw from something else."""

from __future__ import annotations

import ast

import pytest

from proxy_wrapper.code_lines.sample_lines import sample_lines


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("action = dist.sample()", [1]),
        ("def act(dist):\n    return dist.sample().tanh()", [2]),
        ("action = dist.rsample()", []),
        ("batch = buffer.sample(64)", []),
        ("batch = buffer.sample(size=64)", []),
        ("rows = random.sample(rows, 8)", []),
        ("draw = dist.sample", []),
    ],
)
def test_lines_that_draw_from_a_distribution(code: str, lines: list[int]) -> None:
    assert list(sample_lines(ast.parse(code))) == lines
