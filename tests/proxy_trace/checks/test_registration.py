"""Layers in plain containers are told where they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, OTHER_VALUES, STEP, VALUES, find, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")

INNER = events.Module(2, "layers", "Linear", 2, location=3)
OWN = events.Parameter(2, "layers.weight", 2, "float32[2]", requires_grad=True, statistics=VALUES)
CALLS = (
    events.CallModule(1, module=1, training=True),
    events.CallModule(2, module=2, training=True),
    events.ReturnModule(3, module=2),
    events.ReturnModule(4, module=1),
)


@pytest.mark.parametrize("has_gradient", [True, False], ids=["a layer", "a teacher"])
def test_a_layer_that_nobody_holds_is_told(tmp_path: Path, write_trace: WriteTrace, has_gradient: bool) -> None:
    gradient = [events.Gradient(6, tensor=2, statistics=VALUES, has_optimizer=False)] if has_gradient else []
    happened = [*CALLS, events.Backward(5), *gradient, events.Update(7, tensor=1, statistics=OTHER_VALUES), STEP]
    found = find(write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), INNER, OWN, *happened))
    told = [(each.name, each.place) for each in found if each.code == "layers-not-registered"]
    assert told == [("layers", "train.py:20")] * has_gradient
    assert "optimizer-misses-parameters" not in {each.code for each in found}
