from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_trace.tensors import origins
from proxy_trace.tensors.origins import Origins

if TYPE_CHECKING:
    import pytest


def net() -> Origins:
    """x (never seen made) -> fc puts out 2 -> relu 3 -> mul(3, 2) 4 -> head puts out 5, made by linear."""
    made = Origins()
    made.note_call("linear at 1", [1], [2])
    made.note_module("fc", [1], [2])
    made.note_call("relu at 2", [2], [3])
    made.note_call("mul at 3", [3, 2], [4])
    made.note_call("linear at 4", [4, 0], [5])
    made.note_module("head", [4], [5])
    return made


def test_a_tensor_is_called_after_the_module_that_put_it_out_else_after_the_call_that_made_it() -> None:
    assert [net().name(number) for number in range(6)] == ["", "", "fc", "relu at 2", "mul at 3", "head"]


def test_a_trail_goes_back_to_what_other_modules_put_out() -> None:
    assert net().trail(5, limit=10) == ["linear at 4", "mul at 3", "relu at 2", "fc"]
    assert net().trail(5, limit=2) == ["linear at 4", "mul at 3"]
    assert net().trail(1, limit=2) == []


def test_without_calls_of_functions_it_goes_from_module_to_module() -> None:
    made = Origins()
    made.note_module("fc", [1], [2])
    made.note_module("head", [2], [3])
    assert made.trail(3, limit=10) == ["head", "fc"]


def test_the_innermost_module_counts_and_one_that_gives_back_what_it_was_given_does_not() -> None:
    made = Origins()
    made.note_module("identity", [1], [1])
    made.note_module("body.fc", [1], [2])
    made.note_module("body", [1], [2])
    assert [made.name(1), made.name(2)] == ["", "body.fc"]


def test_a_tensor_made_from_itself_ends_the_trail() -> None:
    made = Origins()
    made.note_call("a", [2], [1])
    made.note_call("b", [1], [2])
    assert made.trail(1, limit=10) == ["a", "b"]


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "_REMEMBERED", 8)
    made = Origins()
    for number in range(1, 100):
        made.note_call(f"call {number}", [], [number])
        made.note_module(f"module {number}", [], [number])
    assert made.name(99) == "module 99"
    assert made.name(50) == ""
    assert len(made._calls) <= 8
