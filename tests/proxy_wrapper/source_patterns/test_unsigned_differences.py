"""Differences of bytes that wrap around are found by the values of a data set."""

from __future__ import annotations

import ast
import textwrap
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from proxy_wrapper.source_patterns.unsigned_differences import unsigned_differences

BYTES = torch.arange(24, dtype=torch.uint8).reshape(4, 3, 2)
DARK, BRIGHT = BYTES, BYTES + 5


def found(code: str, **attributes: Any) -> list[tuple[int, tuple[str, str]]]:
    """What is found in a `__getitem__` with that code, of a data set with such attributes."""
    (function,) = ast.parse("def __getitem__(self, i):\n" + textwrap.indent(code, "    ")).body
    assert isinstance(function, ast.FunctionDef)
    differences = unsigned_differences(function, SimpleNamespace(**attributes), lambda: 4)
    return [(each.line, each.names) for each in differences]


@pytest.mark.parametrize(
    "code",
    [
        "return self.dark[i] - self.bright[i]",
        "a, b = self.dark[i], self.bright[i]; return (a - b) / 255",
        "a = self.dark; return a[i, 0] - self.bright[i, 0]",
        "return torch.sub(self.dark[i], self.bright[i]).float()",
        "return self.dark[i].sub(self.bright[i])",
        "return self.bright[i - 1] - self.bright[i]",
        "return self.pair[0][i, :2] - self.pair[1][i, :2]",
    ],
)
@pytest.mark.parametrize("convert", [lambda x: x, torch.Tensor.numpy], ids=["tensors", "arrays"])
def test_a_difference_that_wraps_is_found(code: str, convert: Any) -> None:
    dark, bright = convert(DARK), convert(BRIGHT)
    ((line, _),) = found(code, dark=dark, bright=bright, pair=[dark, bright])
    assert line == 2


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("return self.bright[i] - self.dark[i]", id="never negative"),
        pytest.param("return self.dark[i].float() - self.bright[i].float()", id="converted before"),
        pytest.param("return self.dark[i] - self.mean", id="a mean"),
        pytest.param("return 255 - self.bright[i]", id="a number"),
        pytest.param("a = self.dark[i]; a = a.float(); return a - self.bright[i]", id="a variable that is converted"),
        pytest.param("return self.load(i) - self.bright[i]", id="what a function returns"),
        pytest.param("return self.numbers[i] - self.numbers[i + 1]", id="numbers with a sign"),
        pytest.param("return self.dark[i] - self.other", id="other shapes"),
    ],
)
def test_other_differences_are_not(code: str) -> None:
    numbers = BYTES.to(torch.int16)
    assert found(code, dark=DARK, bright=BRIGHT, mean=torch.ones(3, 2), numbers=numbers, other=BYTES[0, 0]) == []


def test_what_code_computes_is_not_looked_up() -> None:
    class Lazy:
        @property
        def dark(self) -> torch.Tensor:
            raise AssertionError

    (function,) = ast.parse("def __getitem__(self, i):\n    return self.dark[i] - self.dark[i + 1]").body
    assert isinstance(function, ast.FunctionDef)
    assert list(unsigned_differences(function, Lazy(), lambda: 4)) == []


def test_the_samples_are_not_counted_if_nothing_is_subtracted() -> None:
    (function,) = ast.parse("def __getitem__(self, i):\n    return self.a[i] + self.b[i]\n").body
    assert isinstance(function, ast.FunctionDef)
    assert list(unsigned_differences(function, SimpleNamespace(a=DARK, b=BRIGHT), lambda: pytest.fail("counted"))) == []
