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


LISTED = events.SourcePattern(2, what="decay-excepted", names=["bias", "LayerNorm.weight"], made=3)
NORM = events.Module(2, "model.ln", "LayerNorm", 1, 1)
BATCH_NORM = events.Module(2, "model.ln", "BatchNorm1d", 1, 1)


@pytest.mark.parametrize(
    ("module", "name", "decays", "is_told"),
    [
        pytest.param(NORM, "model.ln.weight", (0.1, 0.0), True, id="another name"),
        pytest.param(NORM, "model.LayerNorm.weight", (0.1, 0.0), False, id="the name of the list"),
        pytest.param(NORM, "model.ln.weight", (0.0, 0.1), False, id="not decayed"),
        pytest.param(NORM, "model.ln.weight", (0.1, 0.1), False, id="groups that differ otherwise"),
        pytest.param(BATCH_NORM, "model.ln.weight", (0.1, 0.0), False, id="a norm that is not meant"),
    ],
)
def test_norms_that_a_list_of_names_fails_to_except_are_told_at_the_list(
    tmp_path: Path, write_trace: WriteTrace, module: events.Module, name: str, decays: tuple[float, ...], is_told: bool
) -> None:
    norm = events.Parameter(1, name, 2, "float32[4]", requires_grad=True, statistics=values(2.0))
    bias = events.Parameter(2, "model.ln.bias", 2, "float32[4]", requires_grad=True, statistics=values(2.0))
    groups = [
        events.ParameterGroup({"lr": 0.1, "weight_decay": decay}, [id_])
        for decay, id_ in zip(decays, (1, 2), strict=True)
    ]
    made = events.Optimizer(1, location=3, id=1, optimizer="AdamW", groups=groups, indices=[0, 1], made=3)
    step = (events.OptimizerStep(3, optimizer="AdamW", optimizer_id=1), events.OptimizerStepEnd(5))
    found = find(write_trace(tmp_path / "a.jsonl", PLACE, NET, module, norm, bias, made, LISTED, *step))
    told = [(each.name, each.place) for each in found if each.code == "norms-decayed"]
    assert told == [("AdamW", "train.py:20")] * is_told
