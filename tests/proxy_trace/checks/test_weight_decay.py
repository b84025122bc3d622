"""Weight decay that erodes the weights is told where its optimizer is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")


def values(norm: float) -> events.Statistics:
    return events.Statistics(-1.0, 1.0, norm, bits=f"{int(norm * 1000):016x}")


@pytest.mark.parametrize(
    ("decay", "norm", "name", "is_told"),
    [
        pytest.param(0.5, 0.1, "SGD", True, id="eaten"),
        pytest.param(0.5, 1.5, "SGD", True, id="a twentieth in each step"),
        pytest.param(0.5, 1.9, "SGD", False, id="a twentieth in each step, and the weights are there"),
        pytest.param(0.1, 1.5, "SGD", False, id="a hundredth in each step"),
        pytest.param(1e-4, 0.1, "SGD", False, id="a small decay"),
        pytest.param(10.0, 0.5, "Adam", True, id="a huge decay within the gradient"),
        pytest.param(10.0, 0.5, "AdamW", True, id="a huge decay of its own"),
        pytest.param(0.1, 0.5, "AdamW", False, id="a common decay of its own"),
    ],
)
def test_weights_that_decay_has_eaten_are_told(
    tmp_path: Path, write_trace: WriteTrace, decay: float, norm: float, name: str, is_told: bool
) -> None:
    weights = [
        events.Parameter(number, f"model.w{number}", 1, "float32[4, 4]", requires_grad=True, statistics=values(2.0))
        for number in (1, 2)
    ]
    group = events.ParameterGroup({"lr": 0.1, "weight_decay": decay}, [1, 2])
    made = events.Optimizer(1, location=3, id=1, optimizer=name, groups=[group], indices=[0], made=3)
    passes = [events.Backward(2, location=3, loss_value=1.0), events.BackwardEnd(2)] * 2
    updates = [events.Update(4, tensor=number, statistics=values(norm)) for number in (1, 2)]
    step = (events.OptimizerStep(3, optimizer=name, optimizer_id=1), *updates, events.OptimizerStepEnd(5))
    found = find(write_trace(tmp_path / "a.jsonl", PLACE, NET, *weights, made, *passes, *step))
    told = [(each.name, each.place) for each in found if each.code == "weight-decay-dominates"]
    assert told == [(name, "train.py:20")] * is_told
