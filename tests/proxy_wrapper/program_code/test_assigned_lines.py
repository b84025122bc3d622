"""Where a variable that a line uses was assigned, and where a class assigns an attribute, is read off the bytecode."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from torch import nn

from proxy_wrapper.program_code.assigned_lines import AttributeLines, variable_used

if TYPE_CHECKING:
    from types import FrameType


def use(*_: object) -> int:
    """Where what this call takes was assigned, as the number of lines from the first of the calling function."""
    frame: FrameType = sys._getframe(1)
    found = variable_used(frame)
    return -1 if found is None else found.line - frame.f_code.co_firstlineno


class Holder:
    value = 0


COUNT = 4


def test_the_variable_that_a_line_uses() -> None:
    loss = 1.0
    assert use(loss) == 1


def test_of_several_the_one_that_was_assigned_last() -> None:
    steps = 4
    for number in range(2):
        loss = number * 2.0
        found = use(loss / steps / COUNT)
    assert found == 3


def test_the_last_assignment_before_the_line_counts() -> None:
    loss = 1.0
    loss = loss * 2
    found = use(loss)
    loss = 3.0
    assert (found, loss) == (2, 3.0)


def test_an_attribute_is_a_variable() -> None:
    holder = Holder()
    holder.value = 3
    assert use(holder.value) == 2


def test_what_was_given_to_the_function_is_none() -> None:
    def step(loss: float) -> int:
        return use(loss)

    assert step(1.0) == -1


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)


class Derived(Base):
    def __init__(self) -> None:
        super().__init__()
        self.second = nn.Sequential(
            nn.Linear(2, 2),
            nn.ReLU(),
        )


def line_in(owner: type, name: str) -> int | None:
    """The line of an assignment, counted from the first of the `__init__` that it is in."""
    found = AttributeLines().find(owner, name)
    return None if found is None else found.line - found.code.co_firstlineno


def test_a_class_assigns_its_attributes_and_those_of_its_bases() -> None:
    assert line_in(Derived, "second") == 2
    assert line_in(Derived, "first") == 2
    assert line_in(Derived, "third") is None


def test_classes_of_torch_are_nobodys_own_code() -> None:
    assert AttributeLines().find(nn.MultiheadAttention, "out_proj") is None
