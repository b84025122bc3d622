"""The line by which a class fills weights with one number is read off its code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from proxy_wrapper.code_lines.filled_lines import FilledLines

if TYPE_CHECKING:
    from types import CodeType


class InInit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)
        nn.init.constant_(self.fc.weight, 0.1)


class InMethod(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.set_weights_once(0.1)

    def set_weights_once(self, number: float) -> None:
        self.fc.weight.data.fill_(number)
        nn.init.zeros_(self.fc.bias)


class Several(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))
        self.fc = nn.Linear(2, 2)
        nn.init.constant_(self.fc.weight, 0.1)


class Random(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(2, 2)


class Zeros(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.zeros(2, 2))
        self.second = nn.Parameter(torch.randn(2, 2))
        self.third = nn.Linear(2, 2)
        nn.init.zeros_(self.third.weight)
        nn.init.zeros_(self.first)


def line_in(owner: Any, zeros: str = "") -> int | None:
    """The line, counted from the first of its function."""

    def is_followed(code: CodeType) -> bool:
        return code.co_filename == __file__

    lines = FilledLines(is_followed)
    found = lines.find_zeros(owner, zeros) if zeros else lines.find(owner)
    return None if found is None else found.line - found.code.co_firstlineno


def test_the_only_line_that_fills_is_found() -> None:
    assert line_in(InInit) == 3
    assert line_in(InMethod) == 1


def test_of_several_lines_none_is() -> None:
    assert line_in(Several) is None


def test_code_that_fills_nothing_has_none() -> None:
    assert line_in(Random) is None
    assert line_in(nn.Linear) is None


def test_the_last_line_that_fills_an_attribute_with_zeros_is_found() -> None:
    assert line_in(Zeros, "first") == 6
    assert line_in(Zeros, "third") == 5
    assert line_in(Zeros, "second") is None
