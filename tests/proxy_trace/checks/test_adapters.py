"""Adapters that are frozen, or zero, in both their matrices are told, and others are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, OTHER_VALUES, STEP, VALUES, find, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")

ZERO = events.Statistics(0.0, 0.0, 0.0, bits="0" * 16)
LAYER = events.Module(2, "model.first", "LoraLinear", 1, 1, made=3)
CALLS = [
    *(events.CallModule(1, module=1, training=True), events.CallModule(1, module=2, training=True)),
    *(events.ReturnModule(2, module=2), events.ReturnModule(2, module=1)),
]


def matrix(number: int, name: str, shape: str, values: events.Statistics, *, trains: bool) -> events.Parameter:
    name, kind = f"model.first.{name}", f"float32[{shape}]"
    return events.Parameter(number, name, 2, kind, requires_grad=trains, statistics=values, filled=3)


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


@pytest.mark.parametrize(
    ("first", "second", "at_first", "gradient", "is_told"),
    [
        pytest.param("4, 12", "48, 4", ZERO, ZERO, True, id="zero"),
        pytest.param("12, 4", "4, 48", ZERO, ZERO, True, id="zero, multiplied from the left"),
        pytest.param("4, 12", "48, 4", VALUES, ZERO, False, id="random in the first"),
        pytest.param("4, 12", "48, 4", ZERO, VALUES, False, id="with a gradient"),
        pytest.param("4, 12", "48, 4", ZERO, None, False, id="not trained"),
        pytest.param("48, 12", "12, 48", ZERO, ZERO, False, id="layers that are not of low rank"),
        pytest.param("4, 12", "48, 5", ZERO, ZERO, False, id="other matrices"),
    ],
)
def test_adapters_of_two_zero_matrices_are_told_where_the_second_is_filled(
    tmp_path: Path,
    write_trace: WriteTrace,
    first: str,
    second: str,
    at_first: events.Statistics,
    gradient: events.Statistics | None,
    is_told: bool,
) -> None:
    own = [matrix(2, "a", first, at_first, trains=True), matrix(3, "b", second, ZERO, trains=True)]
    group = events.ParameterGroup({"lr": 0.1}, [1, 2, 3])
    optimizer = events.Optimizer(1, id=1, optimizer="SGD", groups=[group], indices=[0])
    gradients = [events.Gradient(3, tensor=each, statistics=gradient) for each in (2, 3) if gradient is not None]
    updates = [events.Update(4, tensor=each.id, statistics=each.statistics) for each in own]
    steps = [events.OptimizerStep(3, optimizer="SGD", optimizer_id=1), *gradients, *updates, STEP] * 10
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, LAYER, weight(), *own, optimizer, *CALLS, *steps)
    found = [(each.name, each.place) for each in find(path) if each.code == "adapters-zero"]
    assert found == [("model.first.b", "train.py:20")] * is_told
