"""Schedulers that are advanced too early, or too often, are told at their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find, said, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACES = (events.Location(3, "train.py", 20, "main"),)


def optimizer(rate: float = 0.1) -> events.Optimizer:
    group = events.ParameterGroup({"lr": rate}, [1])
    return events.Optimizer(1, location=3, id=1, optimizer="SGD", groups=[group], indices=[0])


def advance(count: int, follows: str) -> events.SchedulerStep:
    return events.SchedulerStep(2, location=3, id=1, scheduler="StepLR", optimizer_id=1, count=count, follows=follows)


STEP = (events.OptimizerStep(5, optimizer="SGD", optimizer_id=1), events.OptimizerStepEnd(6, optimizer="SGD"))
BACKWARD = (events.Backward(1), events.BackwardEnd(2))


@pytest.mark.parametrize(
    ("happened", "is_told"),
    [
        pytest.param([*BACKWARD, *STEP, advance(0, "step")], False, id="behind the step"),
        pytest.param([*BACKWARD, advance(0, "backward"), *STEP], True, id="before each step"),
        pytest.param([*BACKWARD, advance(0, "backward"), *STEP, advance(1, "step")], False, id="a step was skipped"),
        pytest.param([advance(0, "nothing"), *BACKWARD, *STEP, advance(1, "step")], True, id="at the top of an epoch"),
        pytest.param([advance(0, "nothing"), *BACKWARD, *STEP, advance(5, "step")], False, id="wound on"),
        pytest.param([advance(0, "nothing")], False, id="nothing followed"),
    ],
)
def test_a_scheduler_that_is_advanced_before_the_optimizer_steps_is_told(
    tmp_path: Path, write_trace: WriteTrace, happened: list[events.Event], is_told: bool
) -> None:
    path = write_trace(tmp_path / "a.jsonl", *PLACES, NET, weight(), optimizer(), *happened)
    found = [each for each in find(path) if each.code == "scheduler-before-optimizer"]
    assert [(each.name, each.place) for each in found] == [("StepLR", "train.py:20")] * is_told
    assert said(path, "schedulers")[0] == ("finding" if is_told else "passed")


@pytest.mark.parametrize(
    ("factor", "is_told"), [(0.8, True), (0.95, False), (1.0, False)], ids=["at once", "by the end", "never"]
)
def test_a_rate_that_has_fallen_for_most_of_the_run_is_told(
    tmp_path: Path, write_trace: WriteTrace, factor: float, is_told: bool
) -> None:
    happened = [event for number in range(60) for event in (optimizer(0.1 * factor**number), *STEP)]
    path = write_trace(tmp_path / "a.jsonl", *PLACES, NET, weight(), *happened, advance(0, "step"))
    assert [each.place for each in find(path) if each.code == "learning-rate-decays-per-batch"] == [
        "train.py:20"
    ] * is_told


def test_a_rate_that_is_lowered_now_and_then_is_none(tmp_path: Path, write_trace: WriteTrace) -> None:
    """As by a schedule of epochs, however low it ends."""
    happened = [event for rate in (0.1, 1e-3, 1e-4) for event in (optimizer(rate), *STEP * 20)]
    path = write_trace(tmp_path / "a.jsonl", *PLACES, NET, weight(), *happened)
    assert said(path, "schedulers") == ("passed", [])


def test_without_an_optimizer_nothing_was_checked(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, weight())
    assert said(path, "schedulers") == ("not checked", ["no record of an optimizer"])
