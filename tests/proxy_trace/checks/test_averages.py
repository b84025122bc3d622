"""Averages that stand still are told."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
import torch
from msgspec import structs
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import BACKWARD, NET, OTHER_VALUES, STEP, VALUES, find, weight

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")


@pytest.mark.parametrize(
    ("name", "moves", "is_told"), [("ema_net", False, True), ("ema_net", True, False), ("reference", False, False)]
)
def test_only_an_average_that_never_moved_is_told(
    tmp_path: Path, write_trace: WriteTrace, name: str, moves: bool, is_told: bool
) -> None:
    average = events.Module(2, name, "Net", 2)
    own = events.Parameter(2, f"{name}.w", 2, "float32[2]", requires_grad=True, statistics=VALUES)
    calls = [events.CallModule(1, module=2, no_grad=True, training=True), events.ReturnModule(2, module=2)] * 6
    moved = [events.Update(8, tensor=2, statistics=OTHER_VALUES, cause="in-place")] * moves
    happened = [*calls, events.Backward(6), events.Update(7, tensor=1, statistics=OTHER_VALUES), STEP, *moved]
    found = find(write_trace(tmp_path / "a.jsonl", NET, weight(), average, own, *happened))
    assert [each.name for each in found if each.code == "never-updated"] == [name] * is_told


@pytest.mark.parametrize(
    ("owner", "is_told"), [("ModelEMA.__init__", True), ("Reference.__init__", False), ("schEma", False)]
)
def test_a_model_that_an_average_keeps_is_one_whatever_its_name(
    tmp_path: Path, write_trace: WriteTrace, owner: str, is_told: bool
) -> None:
    places = [events.Location(4, "ema.py", 8, owner)]
    average = events.Module(2, "module", "Net", 2, location=4)
    own = events.Parameter(2, "module.w", 2, "float32[2]", statistics=VALUES)
    calls = [events.CallModule(1, module=2, no_grad=True), events.ReturnModule(2, module=2)] * 2
    optimizer = events.Optimizer(5, id=1, optimizer="SGD", groups=[events.ParameterGroup({}, [1])], indices=[0])
    steps = [events.OptimizerStep(6, optimizer="SGD", optimizer_id=1), STEP] * 50
    happened = [*BACKWARD, optimizer, *steps, events.Update(7, tensor=1, statistics=OTHER_VALUES)]
    found = find(write_trace(tmp_path / "a.jsonl", *places, NET, weight(), average, own, *happened, *calls))
    assert [each.place for each in found if each.code == "never-updated"] == ["ema.py:8"] * is_told


def _buffer(id_: int, name: str, module: int) -> events.Buffer:
    return events.Buffer(id_, f"{name}.running_mean", module, "float32[2]", statistics=VALUES)


@pytest.mark.parametrize(
    ("moved", "is_told"),
    [((3,), True), ((3, 4), False), ((), False)],
    ids=["only the trained model's", "both", "neither"],
)
def test_an_average_with_old_statistics_is_told(
    tmp_path: Path, write_trace: WriteTrace, moved: tuple[int, ...], is_told: bool
) -> None:
    average = events.Module(2, "copy", "Net", 2, location=3)
    own = events.Parameter(2, "copy.w", 2, "float32[2]", statistics=VALUES)
    defined = [PLACE, NET, weight(), average, own, _buffer(3, "model", 1), _buffer(4, "copy", 2)]
    changes = [events.Update(8, tensor=each, statistics=OTHER_VALUES, cause="in-place") for each in (2, *moved)]
    called = [events.CallModule(9, module=2, no_grad=True), events.ReturnModule(10, module=2)]
    happened = [*BACKWARD, events.Update(7, tensor=1, statistics=OTHER_VALUES), STEP, *changes, *called]
    found = find(write_trace(tmp_path / "a.jsonl", *defined, *happened))
    assert [each.place for each in found if each.code == "average-keeps-old-statistics"] == ["train.py:20"] * is_told


@pytest.mark.parametrize(
    ("is_scheduled", "is_updated", "told"),
    [(True, False, ["average-keeps-old-statistics"]), (True, True, []), (False, False, [])],
    ids=["statistics of the last weights", "its own statistics", "an average that decays"],
)
def test_averaged_weights_need_statistics_of_their_own(
    is_scheduled: bool, is_updated: bool, told: list[str], tmp_path: Path
) -> None:
    def proxied(model: nn.Module, name: str) -> nn.Module:
        return Proxy.Proxy(model, recurse=True, name=name, logdir=tmp_path, log_level=Proxy.INFO)

    model = proxied(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)), "model")
    average = proxied(AveragedModel(model), "swa_model")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scheduler = SWALR(optimizer, swa_lr=0.05) if is_scheduled else torch.optim.lr_scheduler.StepLR(optimizer, 1)
    batches = torch.randn(3, 6, 4)
    for batch in batches:
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()
        average.update_parameters(model)  # type: ignore[operator]
        scheduler.step()
    if is_updated:
        update_bn(batches, average)
    average.eval()
    average(batches[0])
    Proxy.unproxy(average)
    Proxy.unproxy(model)
    codes = [each.code for each in find(tmp_path)]
    assert [code for code in codes if code == "average-keeps-old-statistics"] == told


@pytest.mark.parametrize(
    ("name", "kind", "is_told"), [("shadow", "Net", True), ("shadow", "Other", False), ("wrapper", "Net", False)]
)
def test_an_average_with_the_modules_of_the_model_is_told(
    tmp_path: Path, write_trace: WriteTrace, name: str, kind: str, is_told: bool
) -> None:
    layer = events.Module(2, "model.fc", "Linear", 1, 1)
    average = [events.Module(3, name, kind, 3), events.Module(2, f"{name}.fc", "Linear", 3, 3)]
    calls = [
        event
        for each in (1, 3)
        for event in (events.CallModule(1, module=each, training=True), events.ReturnModule(2, module=each))
    ]
    trained = [
        *BACKWARD,
        events.Gradient(5, tensor=1, statistics=VALUES),
        events.Update(6, tensor=1, statistics=OTHER_VALUES),
    ]
    path = write_trace(tmp_path / "a.jsonl", NET, layer, weight(1, "model.fc.w", 2), *average, *calls, *trained, STEP)
    assert [each.name for each in find(path) if each.code == "target-is-the-network"] == [name] * is_told


@pytest.mark.parametrize(("between", "is_told"), [(20, True), (0, False)], ids=["refers to them", "refers to a copy"])
def test_an_average_that_refers_to_the_parameters_is_told(
    tmp_path: Path, write_trace: WriteTrace, between: int, is_told: bool
) -> None:
    optimizer = events.Optimizer(5, id=1, optimizer="SGD", groups=[events.ParameterGroup({}, [1])], indices=[0])
    happened = [
        each
        for number in range(20)
        for each in (
            *BACKWARD,
            events.OptimizerStep(6, optimizer="SGD", optimizer_id=1),
            events.Update(7, number, tensor=1, statistics=OTHER_VALUES if number % 2 else VALUES, cause="step"),
            STEP,
            *[events.Update(8, number, tensor=1, statistics=VALUES, cause="data")] * (number < between),
        )
    ]
    record = events.SourcePattern(1, what="average-shares-memory", names=["shadow"], made=3, other=3)
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), optimizer, record, *happened)
    found = [(each.name, each.place) for each in find(path) if each.code == "target-is-the-network"]
    assert found == [("shadow", "train.py:20")] * is_told


@pytest.mark.parametrize(
    ("given", "is_detached", "follow", "is_told"),
    [
        pytest.param("both", False, lambda own, other: own.lerp_(other, 0.05), True, id="trained, and an average"),
        pytest.param("both", False, lambda own, other: own.data.mul_(0.9).add_(other.data, alpha=0.1), True, id="data"),
        pytest.param("both", True, lambda own, other: own.lerp_(other, 0.05), False, id="without gradients"),
        pytest.param("model", False, lambda own, other: own.lerp_(other, 0.05), False, id="not in the optimizer"),
        pytest.param("both", False, lambda _, __: None, False, id="a second model"),
        pytest.param(
            "both", False, lambda own, other: (own.clamp_(-0.3, 0.3), other.clamp_(-0.3, 0.3)), False, id="both clamped"
        ),
    ],
)
def test_an_average_that_an_optimizer_trains(
    tmp_path: Path,
    given: str,
    is_detached: bool,
    follow: Callable[[torch.Tensor, torch.Tensor], object],
    is_told: bool,
) -> None:
    model = nn.Linear(4, 3)
    target = copy.deepcopy(model)
    Proxy.Proxy(model, recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    Proxy.Proxy(target, recurse=True, name="target", logdir=tmp_path, log_level=Proxy.INFO)
    trained = [*model.parameters(), *(target.parameters() if given == "both" else ())]
    optimizer = torch.optim.SGD(trained, 0.1)
    for _ in range(20):
        x = torch.randn(8, 4)
        wanted = target(x).tanh()
        optimizer.zero_grad()
        (model(x) - (wanted.detach() if is_detached else wanted) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            for own, other in zip(target.parameters(), model.parameters(), strict=True):
                follow(own, other)
    Proxy.unproxy(model)
    Proxy.unproxy(target)
    found = [each for each in find(tmp_path) if each.code == "average-is-trained"]
    assert [each.name for each in found] == ["target"] * is_told


UNRESTORED = events.SourcePattern(2, what="weights-unrestored", names=["ema.store"], made=3, other=3)


@pytest.mark.parametrize(("between", "is_told"), [("cb", False), ("c", True)], ids=["put back", "left"])
def test_averages_from_which_training_goes_on_are_told_where_the_weights_are_stored(
    tmp_path: Path, write_trace: WriteTrace, between: str, is_told: bool
) -> None:
    def update(bits: str, cause: str) -> events.Update:
        return events.Update(4, tensor=1, statistics=events.Statistics(-1.0, 1.0, 2.0, bits=bits * 16), cause=cause)

    updates = [update("b", "step"), STEP, *(update(each, "in-place") for each in between), update("d", "step"), STEP]
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), UNRESTORED, *BACKWARD, *updates)
    found = [(each.name, each.place) for each in find(path) if each.code == "weights-not-restored"]
    assert found == [("ema.store", "train.py:20")] * is_told


@pytest.mark.parametrize(
    ("model", "is_told"), [("model", True), ("self.model", True), ("target", False), ("net", True)]
)
def test_only_the_model_whose_weights_are_stored_counts(
    tmp_path: Path, write_trace: WriteTrace, model: str, is_told: bool
) -> None:
    """If no model has that name, any may be it."""
    target, own = events.Module(2, "target", "Net", 2), weight(2, "target.w", 2)
    moved = [events.Update(4, tensor=1, statistics=events.Statistics(bits=bits * 16)) for bits in "bcd"]
    updates = [moved[0], STEP, structs.replace(moved[1], cause="in-place"), moved[2], STEP]
    stored = structs.replace(UNRESTORED, names=["ema.store", model])
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, target, weight(), own, stored, *BACKWARD, *updates)
    assert [each.name for each in find(path) if each.code == "weights-not-restored"] == ["ema.store"] * is_told


@pytest.mark.parametrize(
    ("name", "chooses", "factor", "steps", "is_told"),
    [
        pytest.param("agent.target_net", "Gather", 0.0, 15.0, True, id="a target that is copied at each step"),
        pytest.param("agent.target_net", "Gather", 0.0, 150.0, False, id="now and then"),
        pytest.param("agent.target_net", "Gather", 0.99, 15.0, False, id="an average"),
        pytest.param("agent.target_net", "Select", 0.0, 15.0, False, id="not in Q-learning"),
        pytest.param("agent.old_policy", "Gather", 0.0, 15.0, False, id="an old policy"),
    ],
)
def test_a_target_network_that_is_the_network_again_after_each_step_is_told_where_it_is_copied(
    tmp_path: Path, write_trace: WriteTrace, name: str, chooses: str, factor: float, steps: float, is_told: bool
) -> None:
    target = [events.Module(2, name, "Net", 2), weight(2, f"{name}.w", 2)]
    seen = events.StatePattern(3, what="average", tensor=2, other=1, values=[factor, factor, steps])
    load = events.Load(2, step=1, location=3, module=2, loaded=1)
    loss = events.Loss(1, location=3, id=1, nodes=[events.LossNode(f"{chooses}Backward0")], made=3)
    found = find(write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), *target, loss, load, seen))
    told = [(each.name, each.place) for each in found if each.code == "average-follows-at-once"]
    assert told == [(f"{name}.w", "train.py:20")] * is_told
