"""A model that was left in evaluation mode after a validation is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find, said, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

DROPOUT = events.Module(2, "model.drop", "Dropout", 1, 1)
LINEAR = events.Module(2, "model.drop", "Linear", 1, 1)
SGD = events.Optimizer(1, id=1, optimizer="SGD", groups=[events.ParameterGroup({"lr": 0.1}, [1])], indices=[0])


def run(modes: str, root: int = 1) -> list[events.Event]:
    """Calls of the model: "t" in training mode and "e" in evaluation mode before a step, "v" a validation."""
    found: list[events.Event] = []
    step = 0
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
    ],
)
def test_steps_in_evaluation_mode_after_those_in_training_mode_are_told(
    tmp_path: Path, write_trace: WriteTrace, modes: str, is_told: bool
) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, DROPOUT, weight(), SGD, *run(modes))
    found = [each for each in find(path) if each.code == "trained-in-evaluation-mode"]
    assert [(each.name, each.step) for each in found] == [("model", 2)] * is_told
    assert said(path, "modes")[0] == ("finding" if is_told else "passed")


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
