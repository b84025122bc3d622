"""Expressions of a function are computed from its arguments; nothing of the program runs."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch
from torch import nn

from proxy_wrapper.program_code.known_expressions import KnownExpressions
from proxy_wrapper.program_code.outermost_calls import UNKNOWN
from proxy_wrapper.program_code.syntax import Scope

FUNCTION = """
def forward(self, x, length=None, other=3):
    if length is None:
        length = x.size(1)
    batch, steps, _ = x.shape
    first, *rest = x.shape
    other = other + 1
    ahead = steps + 2 * batch
    loop = loop
"""


class Config:
    size = 7

    @property
    def computed(self) -> int:
        raise AssertionError("not to be run")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 3, dtype=torch.bfloat16)
        self.register_buffer("scale", torch.ones(4, dtype=torch.float16))
        self.width = 5
        self.config = Config()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x.dtype", torch.float32),
        ("x.shape[-1]", 6),
        ("x.size()[0]", 4),
        ("len(x)", 4),
        ("length", 300),
        ("steps", 300),
        ("ahead", 308),
        ("self.width", 5),
        ("self.config.size", 7),
        ("self.linear.weight.dtype", torch.bfloat16),
        ("self.scale.dtype", torch.float16),
        ("torch.bfloat16", torch.bfloat16),
        ("x.shape[5]", UNKNOWN),
        ("other", UNKNOWN),
        ("first", UNKNOWN),
        ("loop", UNKNOWN),
        ("unheard_of", UNKNOWN),
        ("self.config.computed", UNKNOWN),
        ("compute(x)", UNKNOWN),
        ("x.sum()", UNKNOWN),
        ("steps / 2", UNKNOWN),
    ],
)
def test_what_an_expression_stands_for(expression: str, expected: Any) -> None:
    (function,) = ast.parse(FUNCTION).body
    given = {"self": Net(), "x": torch.zeros(4, 300, 6), "length": None, "other": 3}
    known = KnownExpressions(Scope(function), given, {"torch": torch})
    assert known.value_of(ast.parse(expression, mode="eval").body) == expected


@pytest.mark.filterwarnings("ignore:.*nested tensors")
@pytest.mark.parametrize("expression", ["x.shape", "x.size(1)", "len(x)"])
def test_what_has_no_shape_is_unknown(expression: str) -> None:
    (function,) = ast.parse(FUNCTION).body
    given = {"self": Net(), "x": torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]), "other": 3}
    known = KnownExpressions(Scope(function), given, {"torch": torch})
    assert known.value_of(ast.parse(expression, mode="eval").body) is UNKNOWN
