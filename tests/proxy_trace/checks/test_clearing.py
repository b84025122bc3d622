"""Gradients that nobody clears between steps are told of the optimizer that takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_trace.checks import clearing
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find, of_code, said, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")
SGD = events.Optimizer(
    1, location=3, id=1, optimizer="SGD", groups=[events.ParameterGroup({"lr": 0.1}, [1])], indices=[0]
)


def steps(carried: str) -> list[events.Event]:
    """A step for each letter: "c" for one that finds carried gradients."""
    found: list[events.Event] = []
    for number, letter in enumerate(carried):
        is_carried = letter == "c"
        found += [
            events.OptimizerStep(5, number, location=3, optimizer="SGD", optimizer_id=1, carried=is_carried),
            events.OptimizerStepEnd(6, number, optimizer="SGD"),
        ]
    return found


@pytest.mark.parametrize("carried", [".cccc", ".ccc", ".cc.c"])
def test_most_steps_that_find_carried_gradients_are_told(tmp_path: Path, write_trace: WriteTrace, carried: str) -> None:
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), SGD, *steps(carried))
    (finding,) = (each for each in find(path) if each.code == "grad-not-cleared")
    assert (finding.name, finding.severity, finding.step, finding.place) == ("SGD", "error", 1, "train.py:20")
    assert finding.evidence == [f"in {carried.count('c')} of {len(carried) - 1} steps"]
    assert "zero_grad" in finding.remedy


@pytest.mark.parametrize("carried", [".....", ".c...", ".cc...", ".c"])
def test_what_happens_now_and_then_is_not(tmp_path: Path, write_trace: WriteTrace, carried: str) -> None:
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), SGD, *steps(carried))
    assert of_code(path, "grad-not-cleared") == []
    assert said(path, "clearing")[0] == "passed"


@pytest.mark.parametrize(
    ("before", "words"),
    [([], "no record of an optimizer"), ([SGD, *steps(".")], "no optimizer made a second step")],
    ids=["an older trace", "a single step"],
)
def test_without_a_step_to_follow_nothing_was_checked(
    tmp_path: Path, write_trace: WriteTrace, before: list[events.Event], words: str
) -> None:
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), *before)
    assert said(path, "clearing") == ("not checked", [words])


def test_gradients_that_an_opponent_left_are_told_at_the_step(tmp_path: Path, write_trace: WriteTrace) -> None:
    places = [events.Location(3, "gan.py", 20, "main"), events.Location(4, "gan.py", 12, "main")]
    seen = events.StatePattern(9, 7, location=3, what="gradient-left", tensor=1, values=[4], made=4)
    (finding,) = find(write_trace(tmp_path / "a.jsonl", *places, NET, weight(), seen), clearing.CHECK)
    assert (finding.code, finding.name, finding.place, finding.step) == ("grad-of-opponent", "model", "gan.py:20", 7)
    assert finding.reason == "its gradients still had those of the backward pass at gan.py:12, and were added to"
