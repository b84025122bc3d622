"""Where a value was computed that a line uses is followed through the functions that it came from."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from proxy_wrapper.program_code.assigned_lines import AssignedLine
from proxy_wrapper.program_code.called_functions import Body
from proxy_wrapper.program_code.computed_lines import computed_at, computed_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType


def is_followed(code: CodeType) -> bool:
    return code.co_filename == __file__ and code.co_name != "use"


def use(*_: object) -> tuple[str, int]:
    """The function that computed what this call takes, and the line there, counted from its first."""
    found = computed_at(sys._getframe(1), is_followed).at
    return found.code.co_name, found.line - found.code.co_firstlineno


def square(x: float) -> float:
    loss = x * x
    assert loss >= 0
    return loss


def at_once(x: float) -> float:
    return x * x


def through(x: float) -> float:
    found = square(x + 1)
    assert found >= 0
    return found


def several(x: float) -> tuple[float, float]:
    loss = x * x
    accuracy = x + 1
    return loss, accuracy


def one_of_them(x: float, training: bool) -> Any:
    loss = x * x
    if training:
        return loss, x
    return x


def named(x: float) -> dict[str, float]:
    loss = x * x
    return {"loss": loss, "input": x}


def either(x: float) -> float:
    if x > 1:
        return x
    return x * x


def values(x: float) -> Iterator[float]:
    yield x * x


class Trainer:
    def step(self, x: float) -> float:
        loss = x + 2
        assert loss > 2
        return loss


def test_a_value_that_is_computed_here_is_told_here() -> None:
    loss = 1.0 * 2
    assert use(loss) == ("test_a_value_that_is_computed_here_is_told_here", 1)


def test_a_value_of_a_function_is_told_where_that_computes_it() -> None:
    loss = square(2.0)
    assert use(loss) == ("square", 1)
    loss = at_once(2.0)
    assert use(loss) == ("at_once", 1)


def test_functions_are_followed_one_behind_the_other() -> None:
    loss = through(2.0)
    assert use(loss) == ("square", 1)


def test_of_several_values_the_one_of_that_name() -> None:
    loss, accuracy = several(2.0)
    assert use(loss) == ("several", 1)
    _, other = several(2.0)
    assert use(other) == ("test_of_several_values_the_one_of_that_name", 3)
    assert use(accuracy) == ("several", 2)


def test_of_several_returns_the_one_with_that_name() -> None:
    loss, _ = one_of_them(2.0, True)
    assert use(loss) == ("one_of_them", 1)


def test_a_dictionary_has_values_of_that_name() -> None:
    loss = named(2.0)["loss"]
    assert use(loss) == ("named", 1)


def test_a_model_is_followed_where_it_is_known_to_have_computed_the_value() -> None:
    frame = sys._getframe()
    line = AssignedLine(frame.f_code, frame.f_lineno, "loss")
    forward = Body(several.__code__, several.__globals__)
    found = computed_from(line, Body(frame.f_code, globals()), is_followed, forward).at
    assert (found.code, found.line - found.code.co_firstlineno) == (several.__code__, 1)


def test_a_method_is_followed() -> None:
    trainer = Trainer()
    loss = trainer.step(2.0)
    assert use(loss) == ("step", 1)


class ScaledLoss(nn.Module):
    def forward(self, x: float, y: float) -> float:
        scaled = x * y
        scaled += y
        return scaled + 1


class WithCriterion:
    def __init__(self) -> None:
        self.criterion = ScaledLoss()

    def compute(self, x: float) -> Any:
        return self.criterion(square(x), at_once(x))


def test_of_calls_in_one_another_the_outermost_is_followed() -> None:
    loss = at_once(square(2.0))
    assert use(loss) == ("at_once", 1)
    loss = abs(square(2.0))  # Which is Python's own.
    assert use(loss)[0] == "test_of_calls_in_one_another_the_outermost_is_followed"
    loss = at_once(square(2.0)) / 4
    assert use(loss) == ("at_once", 1)
    loss = sum([square(2.0)])
    assert use(loss) == ("square", 1)


# Functions with an `assert` mention `locals` once pytest has rewritten them: their variables are not read.


def of_module() -> tuple[str, int]:
    criterion = ScaledLoss()
    loss = criterion(square(2.0), 1.0)
    return use(loss)


def of_module_of_an_object() -> tuple[str, int]:
    holder = WithCriterion()
    loss = holder.compute(2.0)
    return use(loss)


def of_torch() -> tuple[str, int]:
    criterion = nn.MSELoss()
    made = torch.zeros(2)
    loss = criterion(made, torch.full((2,), square(2.0)))
    return use(loss)


def test_a_module_is_followed_into_its_forward() -> None:
    assert of_module() == ("forward", 2)
    assert of_module_of_an_object() == ("forward", 2)


def test_a_loss_of_torch_is_computed_where_it_is_called() -> None:
    assert of_torch() == ("of_torch", 3)


class Loss:
    def backward(self) -> tuple[str, int]:
        found = computed_at(sys._getframe(1), is_followed).at
        return found.code.co_name, found.line - found.code.co_firstlineno


def loss_of(*_: object) -> Loss:
    return Loss()


def of_line_itself() -> tuple[str, int]:
    x = square(1.0)
    return loss_of(x, at_once(x)).backward()


def test_what_a_line_computes_itself_is_told_there() -> None:
    assert of_line_itself() == ("loss_of", 1)


def test_where_it_is_not_certain_the_last_certain_line_is_told() -> None:
    loss = either(2.0)
    assert use(loss)[0] == "test_where_it_is_not_certain_the_last_certain_line_is_told"
    loss = square(1.0) + at_once(2.0)
    assert use(loss)[0] == "test_where_it_is_not_certain_the_last_certain_line_is_told"
    loss = next(values(2.0))
    assert use(loss)[0] == "test_where_it_is_not_certain_the_last_certain_line_is_told"


def test_what_is_not_followed_is_not_read() -> None:
    def here(follow: Callable[[CodeType], bool]) -> Any:
        loss = square(2.0)
        return loss, computed_at(sys._getframe(), follow).at

    def nothing(code: CodeType) -> bool:
        return False

    assert here(nothing)[1].code is here.__code__
