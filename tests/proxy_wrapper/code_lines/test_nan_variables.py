"""The variable in which a NaN came up first is found among those that a line was computed from.

Each program here is a function of its own: `assert`, as pytest compiles it, asks for the variables itself.
"""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import pytest
import torch

from proxy_wrapper.code_lines.nan_variables import first_nan, origin_of_nan

NAN = float("nan")


def use(*_: object) -> tuple[str, int] | None:
    """The first variable with a NaN of those behind the line that calls this, and its line from the first one."""
    frame = sys._getframe(1)
    found = first_nan(frame)
    return None if found is None else (found.name, found.line - frame.f_code.co_firstlineno)


def origin(*_: object) -> tuple[str, int] | None:
    """The same, followed into the callers."""
    found = origin_of_nan(sys._getframe(1), lambda _: True)
    return None if found is None else (found.assigned.name, found.assigned.line - found.frame.f_code.co_firstlineno)


def test_the_first_variable_that_holds_one() -> None:
    def program() -> Any:
        reward = torch.ones(4)
        spread = reward - reward.mean()
        advantage = spread / spread.std()
        loss = (advantage * torch.ones(4)).mean()
        return use(loss)

    assert program() == ("advantage", 3)


def test_what_went_into_it_is_followed_over_several_lines() -> None:
    def program() -> Any:
        x = torch.tensor([1.0, NAN])
        first, second = (
            x + 1,
            torch.ones(2),
        )
        loss = torch.stack([
            first,
            second,
        ]).sum()  # fmt: skip
        return use(loss)

    assert program() == ("x", 1)


def test_a_variable_that_the_line_was_not_computed_from_is_none() -> None:
    def program() -> Any:
        best = torch.tensor(NAN)
        loss = torch.ones(2).sum()
        return use(loss), best

    assert program()[0] is None


def test_infinities_are_none() -> None:
    """A mask has them."""

    def program() -> Any:
        mask = torch.full((2,), float("-inf"))
        loss = mask.softmax(0).sum()
        return use(loss)

    assert program() == ("loss", 2)


def test_what_was_assigned_again_counts_as_it_is_now() -> None:
    def program() -> Any:
        total = torch.tensor(NAN)
        total = total.nan_to_num() + 1
        loss = total * 2
        return use(loss)

    assert program() is None


def test_of_a_loop_the_last_round_counts() -> None:
    def program() -> Any:
        found = []
        for x in (torch.ones(2), torch.tensor([1.0, NAN])):
            loss = x.exp().sum()
            found.append(use(loss))
        return found

    assert program() == [None, ("x", 2)]


def test_a_variable_that_a_loop_assigns_again_got_its_value_there() -> None:
    def program() -> Any:
        h = torch.zeros(2)
        for scale in (1.0, NAN):
            h = h + scale
        return use(h)

    assert program() == ("h", 3)


@pytest.mark.parametrize("value", [None, 1.0, [torch.tensor(NAN)], torch.tensor([1, 2])])
def test_other_values_are_passed_over(value: Any) -> None:
    def program() -> Any:
        given = value
        loss = torch.tensor([0.0 if given is None else NAN, NAN])
        return use(loss)

    assert program() == ("loss", 2)


def test_variables_of_a_script() -> None:
    names: dict[str, Any] = {"use": use, "torch": torch}
    exec("x = torch.zeros(2)\ny = x / x\nloss = y.sum()\nfound = use(loss)\n", names)
    assert names["found"] == ("y", 1)


def test_no_value_is_kept_alive() -> None:
    def program() -> Any:
        x = torch.full((2,), NAN)
        loss = x.sum()
        found = use(loss)
        ref = weakref.ref(x)
        del x
        gc.collect()
        return found, ref()

    assert program() == (("x", 1), None)


def test_a_function_that_has_asked_for_its_variables_keeps_them() -> None:
    def program() -> Any:
        settings = locals()
        x = torch.full((2,), NAN)
        loss = x.sum()
        use(loss)
        return settings

    assert program() == {}


@pytest.mark.parametrize(("value", "expected"), [(NAN, ("y", 3)), (1.0, ("loss", 2))])
def test_a_nan_that_was_passed_in_is_followed_into_the_caller(value: float, expected: tuple[str, int]) -> None:
    def step(y: torch.Tensor) -> Any:
        scale = torch.ones(2)
        loss = (y * scale).sum() + (NAN if value == 1.0 else 0.0)
        return origin(loss)

    def program() -> Any:
        x = torch.ones(2)
        scale = torch.ones(2)
        y = x * scale * value
        return step(y)

    assert program() == expected


def normalised(x: torch.Tensor) -> torch.Tensor:
    """Divides by a deviation of 0."""
    centred = x - x.mean()
    return centred / x.std()


def test_a_nan_that_was_computed_in_the_call_is_found_in_the_function_called_there() -> None:
    def shown(y: torch.Tensor) -> Any:
        loss = y.sum()
        return origin_at(loss)

    def outer() -> Any:
        x = torch.ones(2)
        return shown(normalised(x))

    assert outer() == ("y", normalised.__code__.co_firstlineno + 3)


def origin_at(*_: object) -> tuple[str, int] | None:
    """The variable and the line in its file."""
    found = origin_of_nan(sys._getframe(1), lambda _: True)
    return None if found is None else (found.assigned.name, found.assigned.line)
