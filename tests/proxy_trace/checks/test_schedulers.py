"""Schedulers that are advanced too early, or too often, are told at their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import structs

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
        pytest.param([*BACKWARD, *STEP, *BACKWARD, advance(0, "backward")], False, id="behind another one's pass"),
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


def made(name: str, count: int, **settings: int) -> events.SchedulerStep:
    """The record of a scheduler that was made with some settings, when it had been advanced so often."""
    return events.SchedulerStep(
        2, location=3, id=1, scheduler=name, optimizer_id=1, count=count, made=4, settings=dict(settings)
    )


def loading(batches: int, count: int) -> events.Loading:
    return events.Loading(1, id=1, sampler="RandomSampler", batches=batches, count=count, trains=True)


@pytest.mark.parametrize(
    ("half", "advanced", "loader", "is_told"),
    [
        pytest.param(6, 64, loading(16, 4), True, id="fewer than there are batches"),
        pytest.param(20, 128, loading(8, 16), True, id="as many as there are epochs"),
        pytest.param(20, 64, loading(8, 16), False, id="twice, perhaps"),
        pytest.param(16, 64, loading(1, 64), False, id="all data in one batch"),
        pytest.param(16, 64, loading(8, 2), False, id="longer than an epoch"),
    ],
)
def test_a_cosine_schedule_of_epochs_that_is_advanced_with_batches_is_told(
    tmp_path: Path, write_trace: WriteTrace, half: int, advanced: int, loader: events.Loading, is_told: bool
) -> None:
    places = (*PLACES, events.Location(4, "train.py", 9, "main"))
    happened = [*STEP * advanced, made("CosineAnnealingLR", 0, T_max=half), made("CosineAnnealingLR", advanced)]
    path = write_trace(tmp_path / "a.jsonl", *places, NET, weight(), loader, optimizer(), *happened)
    assert [each.place for each in find(path) if each.code == "cosine-schedule-repeats"] == ["train.py:9"] * is_told


@pytest.mark.parametrize(
    ("steps", "advanced", "is_told"),
    [(96, 5, True), (96, 16, False), (95, 5, False)],
    ids=["a few times", "with more of the steps", "for another number of steps"],
)
def test_a_schedule_of_steps_that_is_advanced_with_epochs_is_told(
    tmp_path: Path, write_trace: WriteTrace, steps: int, advanced: int, is_told: bool
) -> None:
    happened = [*STEP * steps, made("OneCycleLR", 0, total_steps=96), made("OneCycleLR", advanced)]
    path = write_trace(tmp_path / "a.jsonl", *PLACES, NET, weight(), optimizer(), *happened)
    assert [each.place for each in find(path) if each.code == "schedule-not-finished"] == ["train.py:20"] * is_told


@pytest.mark.parametrize(
    ("has_own", "goes_on", "is_told"),
    [(False, True, True), (True, True, False), (False, False, False)],
    ids=["goes on", "the new one has its own", "it was advanced no more"],
)
def test_a_scheduler_of_an_optimizer_that_was_replaced_is_told(
    tmp_path: Path, write_trace: WriteTrace, has_own: bool, goes_on: bool, is_told: bool
) -> None:
    second = structs.replace(optimizer(), id=2, made=4)
    steps = [events.OptimizerStep(5, at, optimizer="SGD", optimizer_id=1 + (at >= 5)) for at in range(12)]
    advances = [structs.replace(advance(0, "step"), step=5)]
    advances += [structs.replace(advance(count, "backward"), step=9 + count) for count in (1, 2)] * goes_on
    advances += [structs.replace(advance(0, "step"), step=9, id=2, optimizer_id=2)] * has_own
    places = (*PLACES, events.Location(4, "train.py", 31, "main"))
    happened = [optimizer(), *steps[:5], second, *steps[5:], *advances]
    path = write_trace(tmp_path / "a.jsonl", *places, NET, weight(), *happened)
    found = [each.place for each in find(path) if each.code == "scheduler-of-old-optimizer"]
    assert found == ["train.py:31"] * is_told


@pytest.mark.parametrize(
    ("mode", "words", "never_better", "is_told"),
    [
        pytest.param("min", ("scheduler", "step", "val_acc"), True, True, id="a score is to fall"),
        pytest.param("min", ("self", "scheduler", "valF1"), True, True, id="a score in camel case"),
        pytest.param("max", ("scheduler", "step", "loss"), True, True, id="a loss is to rise"),
        pytest.param("min", ("scheduler", "step", "val_acc"), False, False, id="it has fallen"),
        pytest.param("min", ("scheduler", "step", "val_loss"), True, False, id="a loss is to fall"),
        pytest.param("min", ("scheduler", "step", "one", "acc", "error"), True, False, id="an error by a score"),
        pytest.param("max", ("scheduler", "step", "val_acc"), True, False, id="a score is to rise"),
        pytest.param("min", ("scheduler", "step", "accumulated"), True, False, id="a word that only begins so"),
    ],
)
def test_a_plateau_of_the_other_mode_is_told_where_the_scheduler_was_made(
    tmp_path: Path, write_trace: WriteTrace, mode: str, words: tuple[str, ...], never_better: bool, is_told: bool
) -> None:
    reduced = events.RateReduced(
        5, location=3, id=1, optimizer_id=1, mode=mode, made=4, never_better=never_better, words=words
    )
    places = (*PLACES, events.Location(4, "train.py", 9, "main"))
    path = write_trace(tmp_path / "a.jsonl", *places, NET, weight(), optimizer(), *STEP, reduced)
    assert [each.place for each in find(path) if each.code == "plateau-of-other-mode"] == ["train.py:9"] * is_told


def test_without_an_optimizer_nothing_was_checked(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, weight())
    assert said(path, "schedulers") == ("not checked", ["no record of an optimizer"])


def told_squared(
    write_trace: WriteTrace, path: Path, *, given: float, largest: float, words: list[str], other: float = 0.0
) -> list[tuple[str, str]]:
    rates = [largest / 2, largest, largest / 4]
    groups = [{"initial_lr": given}, *([{"initial_lr": other}] if other else [])]
    records = [
        events.Optimizer(
            1,
            location=3,
            id=1,
            optimizer="SGD",
            groups=[events.ParameterGroup({"lr": rate, **each}, [1]) for each in groups],
            indices=[*range(len(groups))],
        )
        for rate in rates
    ]
    scheduler = structs.replace(advance(0, "step"), scheduler="LambdaLR", words=words, made=3)
    happened = [event for record in records for event in (*BACKWARD, record, *STEP)]
    found = find(write_trace(path, *PLACES, NET, weight(), *happened, scheduler))
    return [(each.name, each.place) for each in found if each.code == "learning-rate-squared"]


def test_a_function_that_returns_the_rate_is_told(tmp_path: Path, write_trace: WriteTrace) -> None:
    found = told_squared(write_trace, tmp_path / "a.jsonl", given=1e-3, largest=1e-6, words=["step", "BASE_LR"])
    assert found == [("LambdaLR", "train.py:20")]


@pytest.mark.parametrize(
    ("given", "largest", "words", "other"),
    [
        pytest.param(1e-3, 1e-3, ["step", "base_lr"], 0.0, id="a factor"),
        pytest.param(1e-3, 2e-6, ["step", "base_lr"], 0.0, id="another rate"),
        pytest.param(0.1, 0.01, ["epoch"], 0.0, id="a factor of that size"),
        pytest.param(0.1, 0.01, ["epoch", "lr_decay"], 0.0, id="the name of a decay"),
        pytest.param(1.0, 1.0, ["step", "lr"], 0.0, id="created with 1"),
        pytest.param(0.1, 0.01, ["step", "lr"], 0.5, id="groups of several rates"),
    ],
)
def test_functions_that_return_a_factor_are_not_told(
    tmp_path: Path, write_trace: WriteTrace, given: float, largest: float, words: list[str], other: float
) -> None:
    path = tmp_path / "a.jsonl"
    assert told_squared(write_trace, path, given=given, largest=largest, words=words, other=other) == []


def test_a_schedule_that_begins_anew_is_told_where_its_scheduler_is_created(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    places = (*PLACES, events.Location(4, "train.py", 9, "main"))
    seen = events.ScheduleRestart(
        2, 6, optimizer_id=1, scheduler="LambdaLR", made=4, loaded_rate=0.02, rate=0.1, start=5
    )
    path = write_trace(tmp_path / "a.jsonl", *places, NET, weight(), optimizer(), seen, *STEP)
    (finding,) = [each for each in find(path) if each.code == "schedule-restarts"]
    assert (finding.name, finding.place, finding.step) == ("LambdaLR", "train.py:9", 6)
    assert finding.reason == "training goes on from 5, and its schedule begins anew"
    assert finding.evidence == ["the loaded rate was 0.02, and LambdaLR set 0.1"]
