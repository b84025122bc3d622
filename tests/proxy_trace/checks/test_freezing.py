"""Freezing without an effect is told where it is written, if training has changed the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, OTHER_VALUES, STEP, VALUES, find, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")


@pytest.mark.parametrize("has_changed", [True, False])
def test_only_what_has_changed_is_told(tmp_path: Path, write_trace: WriteTrace, has_changed: bool) -> None:
    record = events.FreezeWithoutEffect(2, attribute="require_grad", tensor=1, count=1, made=3)
    changes = [events.Update(4, tensor=1, statistics=OTHER_VALUES)] if has_changed else []
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), record, *changes, STEP)
    found = [(each.name, each.place) for each in find(path) if each.code == "freeze-has-no-effect"]
    assert found == [("model.w", "train.py:20")] * has_changed


@pytest.mark.parametrize("has_changed", [True, False])
def test_what_is_unfrozen_and_stays_frozen_is_told(tmp_path: Path, write_trace: WriteTrace, has_changed: bool) -> None:
    record = events.FreezeWithoutEffect(2, attribute="requires_grad", tensor=1, count=1, made=3, unfreezes=True)
    frozen = events.Parameter(1, "model.w", 1, "float32[2]", statistics=VALUES)
    happened = [events.Update(4, tensor=1, statistics=OTHER_VALUES)] if has_changed else []
    gradient = events.Gradient(3, tensor=1)
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, frozen, gradient, record, *happened, STEP)
    found = [(each.name, each.place) for each in find(path) if each.code == "freeze-has-no-effect"]
    assert found == [("model.w", "train.py:20")] * (not has_changed)


def test_a_loop_that_unfreezes_what_was_frozen_is_told_as_a_warning(tmp_path: Path, write_trace: WriteTrace) -> None:
    before = events.Location(4, "train.py", 12, "main")
    record = events.SourcePattern(3, what="freeze-undone", names=["model"], made=3, other=4)
    path = write_trace(tmp_path / "a.jsonl", PLACE, before, NET, weight(), record)
    (finding,) = (each for each in find(path) if each.code == "freeze-has-no-effect")
    assert (finding.severity, finding.name, finding.place) == ("warning", "model", "train.py:20")
    assert finding.reason == "a loop over all parameters unfreezes what was frozen at train.py:12"


ZERO = events.Statistics(0.0, 0.0, 0.0, bits="0" * 16)
LAYER = events.Module(2, "model.first", "LoraLinear", 1, 1, made=3)
CALLS = [
    *(events.CallModule(1, module=1, training=True), events.CallModule(1, module=2, training=True)),
    *(events.ReturnModule(2, module=2), events.ReturnModule(2, module=1)),
]


def matrix(number: int, name: str, shape: str, values: events.Statistics, *, trains: bool) -> events.Parameter:
    name, kind = f"model.first.{name}", f"float32[{shape}]"
    return events.Parameter(number, name, 2, kind, requires_grad=trains, statistics=values)


@pytest.mark.parametrize(
    ("first", "second", "at_first", "trains", "is_told"),
    [
        pytest.param("4, 12", "48, 4", ZERO, False, True, id="zero"),
        pytest.param("12, 4", "4, 48", ZERO, False, True, id="zero, multiplied from the left"),
        pytest.param("4, 12", "48, 4", VALUES, False, False, id="learnt before"),
        pytest.param("4, 12", "48, 4", ZERO, True, False, id="trained"),
        pytest.param("48, 12", "12, 48", ZERO, False, False, id="layers that are not of low rank"),
        pytest.param("4, 12", "48, 5", ZERO, False, False, id="other matrices"),
    ],
)
def test_adapters_that_are_frozen_as_they_were_made_are_told_where_the_model_is_frozen(
    tmp_path: Path,
    write_trace: WriteTrace,
    first: str,
    second: str,
    at_first: events.Statistics,
    trains: bool,
    is_told: bool,
) -> None:
    own = [matrix(2, "a", first, VALUES, trains=trains), matrix(3, "b", second, at_first, trains=trains)]
    group = events.ParameterGroup({"lr": 0.1}, [1, 2, 3])
    optimizer = events.Optimizer(1, id=1, optimizer="SGD", groups=[group], indices=[0])
    frozen = events.SourcePattern(3, what="model-frozen", names=["model"], made=3)
    changed = events.Update(4, tensor=1, statistics=OTHER_VALUES)
    steps = [events.OptimizerStep(3, optimizer="SGD", optimizer_id=1), changed, STEP] * 10
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, LAYER, weight(), *own, optimizer, frozen, *CALLS, *steps)
    found = [(each.name, each.place) for each in find(path) if each.code == "adapters-frozen"]
    assert found == [("model.first.b", "train.py:20")] * is_told
