"""What is compared with 0.5 is read from the code that calls a model."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from proxy_wrapper.code_lines.thresholds import Threshold, threshold_of_call

if TYPE_CHECKING:
    from collections.abc import Callable

HELPER = """
def helper(y, p):
    return ((p > 0.5) == y).sum()
"""


def found(body: str) -> Threshold | None:
    """What the code does with what the call of `model` on its first line gave."""
    tree = ast.parse(body + HELPER)
    helper = next(each for each in tree.body if isinstance(each, ast.FunctionDef))

    def followed(expression: ast.expr) -> ast.FunctionDef | None:
        return helper if ast.unparse(expression) == "helper" else None

    def is_named(name: str) -> Callable[[ast.expr], bool]:
        return lambda expression: ast.unparse(expression) == name

    return threshold_of_call(tree, 1, is_named("model"), is_named("criterion"), followed)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("out = model(x)\nok = (out > 0.5).float()", Threshold(2, has_loss=False)),
        ("out = model(x)\nloss = criterion(out, y)\nok = 0.5 <= out", Threshold(3, has_loss=True)),
        (
            "out = model(x)\np = out.detach().cpu()\nok = p.numpy() >= 0.5",
            Threshold(3, has_loss=False),
        ),
        ("out = model(x)\nok = torch.gt(out, 0.5)", Threshold(2, has_loss=False)),
        ("out = model(x)\nok = torch.where(out.view(-1) > 0.5, 1, 0)", Threshold(2, has_loss=False)),
        ("out = model(x)\nok = helper(y, out)", Threshold(4, has_loss=False)),
        ("out = model(x)\nok = helper(out, y)", None),
        ("out = model(x)\nok = torch.sigmoid(out) > 0.5", None),
        ("out = model(x)\nok = out.sigmoid() > 0.5", None),
        ("out = model(x).sigmoid()\nok = out > 0.5", None),
        ("out = model(x)\nout = out.sigmoid()\nok = out > 0.5", None),
        ("out = model(x)\nok = out > 0", None),
        ("out = model(x)\nok = y > 0.5", None),
        ("out, other = model(x)\nok = out > 0.5", None),
    ],
)
def test_outputs_that_are_compared_with_a_half(body: str, expected: Threshold | None) -> None:
    assert found(body) == expected
