"""A model that was left in evaluation mode after a validation is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, OTHER_VALUES, STEP, find, said, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

DROPOUT = events.Module(2, "model.drop", "Dropout", 1, 1)
LINEAR = events.Module(2, "model.drop", "Linear", 1, 1)
SGD = events.Optimizer(1, id=1, optimizer="SGD", groups=[events.ParameterGroup({"lr": 0.1}, [1])], indices=[0])


def run(modes: str, root: int = 1, *, first_step: int = 0) -> list[events.Event]:
    """Calls of the model: "t" in training mode and "e" in evaluation mode before a step, "v" a validation."""
    found: list[events.Event] = []
    step = first_step
    for letter in modes:
        is_training = letter == "t"
        found += [events.CallModule(1, step, module, training=is_training) for module in (root, 2)]
        found += [events.ReturnModule(2, step, 2), events.ReturnModule(2, step, root)]
        if letter != "v":
            found.append(events.OptimizerStep(5, step, optimizer="SGD", optimizer_id=1))
            step += 1
    return found


@pytest.mark.parametrize(
    ("modes", "is_told"),
    [
        pytest.param("ttvee", True, id="left in evaluation mode"),
        pytest.param("ttvttvtt", False, id="put back each time"),
        pytest.param("eeee", False, id="never in training mode"),
        pytest.param("tetetet", False, id="in turns"),
        pytest.param("ttve", False, id="a single step"),
        pytest.param("ttveeevteee", True, id="put back once an epoch"),
    ],
)
def test_steps_in_evaluation_mode_after_those_in_training_mode_are_told(
    tmp_path: Path, write_trace: WriteTrace, modes: str, is_told: bool
) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, DROPOUT, weight(), SGD, *run(modes))
    found = [each for each in find(path) if each.code == "trained-in-evaluation-mode"]
    assert [(each.name, each.step) for each in found] == [("model", 2)] * is_told
    assert said(path, "modes")[0] == ("finding" if is_told else "passed")


@pytest.mark.parametrize(
    ("happened", "what"),
    [
        (
            [SGD, events.OptimizerStep(5, optimizer="SGD", optimizer_id=1)],
            "a call of a model before a step of its optimizer",
        ),
        ([], "an optimizer"),
    ],
)
def test_what_was_not_seen_is_said(
    tmp_path: Path, write_trace: WriteTrace, happened: list[events.Event], what: str
) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, DROPOUT, weight(), *happened)
    assert said(path, "modes") == ("not checked", [f"no record of {what}"])


def test_the_evaluation_that_left_it_so_is_told(tmp_path: Path, write_trace: WriteTrace) -> None:
    places = [events.Location(3, "train.py", 20, "fit"), events.Location(4, "train.py", 30, "validate")]
    trained, evaluated, left = run("tt"), run("vv"), run("ee", first_step=2)
    happened = [msgspec.structs.replace(each, location=3) for each in trained]
    happened += [msgspec.structs.replace(each, location=4) for each in evaluated]
    happened += [msgspec.structs.replace(each, location=3) for each in left]
    path = write_trace(tmp_path / "a.jsonl", *places, NET, DROPOUT, weight(), SGD, *happened)
    (found,) = [each for each in find(path) if each.code == "trained-in-evaluation-mode"]
    assert found.place == "train.py:20"
    assert "in evaluation mode since it was called at train.py:30" in found.evidence


BATCH_NORM = events.Module(2, "model.norm", "BatchNorm1d", 1, 1)


def statistics(mean: float, variance: float) -> list[events.Event]:
    """The running statistics of a batch norm."""
    values = {"running_mean": (8, mean), "running_var": (9, variance)}
    return [
        events.Buffer(number, f"model.norm.{name}", 2, "float32[4]", statistics=events.Statistics(value, value))
        for name, (number, value) in values.items()
    ]


@pytest.mark.parametrize(
    ("modes", "given", "is_told"),
    [
        pytest.param("veeee", statistics(0, 1), True, id="new statistics"),
        pytest.param("veeee", statistics(0.1, 1.2), False, id="loaded statistics"),
        pytest.param("ve", statistics(0, 1), False, id="a single step"),
    ],
)
def test_a_new_batch_norm_that_is_never_in_training_mode_is_told(
    tmp_path: Path, write_trace: WriteTrace, modes: str, given: list[events.Event], is_told: bool
) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, BATCH_NORM, weight(), *given, SGD, *run(modes))
    assert [each.code for each in find(path) if each.code != "untrained"] == ["trained-in-evaluation-mode"] * is_told


def test_a_model_that_the_mode_does_not_change_may_be_in_either(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, LINEAR, weight(), SGD, *run("ttvee"))
    assert said(path, "modes") == ("passed", [])


def test_another_model_in_evaluation_mode_is_none(tmp_path: Path, write_trace: WriteTrace) -> None:
    """A teacher, which is called between the student's call and its step."""
    teacher = [events.CallModule(3, module=9), events.ReturnModule(4, module=9)]
    calls: list[events.Event] = []
    for event in run("tttt"):
        calls += [*teacher, event] if isinstance(event, events.OptimizerStep) else [event]
    path = write_trace(tmp_path / "a.jsonl", NET, DROPOUT, events.Module(9, "teacher", "Net", 9), weight(), SGD, *calls)
    assert said(path, "modes") == ("passed", [])


def evaluated(
    before: int, steps: int, *, behind: bool = True, evaluated: bool = False, passed_on: bool = False
) -> list[events.Event]:
    """Calls with autograd off and in training mode, some before the steps and, if asked for, one behind them."""
    blind = [
        events.CallModule(1, module=1, training=True, no_grad=True, location=3),
        events.CallModule(1, module=2, training=True),
        events.ReturnModule(2, module=2),
        events.ReturnModule(2, module=1, output_ids=[7]),
    ]
    found = [*blind * before, *run("t" * steps)]
    found += [msgspec.structs.replace(each, step=steps) for each in blind] * behind
    found += [events.CallModule(9, steps, 1), events.ReturnModule(9, steps, 1)] * evaluated
    found += [events.CallModule(9, steps, 5, input_ids=[7]), events.ReturnModule(9, steps, 5)] * passed_on
    return found


@pytest.mark.parametrize(
    ("happened", "is_told"),
    [
        pytest.param(evaluated(0, 2), True, id="a validation"),
        pytest.param(evaluated(1, 2), False, id="part of each iteration, or a check before it"),
        pytest.param(evaluated(0, 2, behind=False), False, id="none"),
        pytest.param(evaluated(0, 2, evaluated=True), False, id="evaluated as well"),
        pytest.param(evaluated(0, 2, passed_on=True), False, id="what it generates goes into another model"),
    ],
)
def test_an_evaluation_in_training_mode_is_told_where_the_model_is_called(
    tmp_path: Path, write_trace: WriteTrace, happened: list[events.Event], is_told: bool
) -> None:
    place, other = events.Location(3, "train.py", 20, "main"), events.Module(5, "critic", "Net", 5)
    path = write_trace(tmp_path / "a.jsonl", place, NET, DROPOUT, other, weight(), SGD, *happened)
    found = [each for each in find(path) if each.code == "evaluated-in-training-mode"]
    assert [(each.name, each.place) for each in found] == [("model", "train.py:20")] * is_told


@pytest.mark.parametrize(
    ("is_average", "discarded"),
    [
        pytest.param(True, False, id="an average"),
        pytest.param(False, False, id="a teacher"),
        pytest.param(False, True, id="running statistics are computed"),
    ],
)
def test_a_teacher_in_training_mode_is_told_unless_it_changes(
    tmp_path: Path, write_trace: WriteTrace, is_average: bool, discarded: bool
) -> None:
    teacher = [events.Module(5, "teacher", "Net", 5), events.Module(6, "teacher.drop", "Dropout", 5, 5)]
    blind = [
        events.CallModule(1, module=5, training=True, no_grad=True, discarded=discarded),
        events.CallModule(1, module=6, training=True),
        events.ReturnModule(2, module=6),
        events.ReturnModule(2, module=5),
    ]
    moved = [events.Update(9, 1, tensor=2, statistics=OTHER_VALUES, cause="in-place")] if is_average else []
    path = write_trace(
        tmp_path / "a.jsonl", NET, DROPOUT, *teacher, weight(), weight(2, "teacher.w", 5), SGD, *blind * 2, *run("tt"),
        STEP, *moved,
    )  # fmt: skip
    found = [each.name for each in find(path) if each.code == "evaluated-in-training-mode"]
    assert found == ([] if is_average or discarded else ["teacher"])
