"""Weights that were left out, and modules that were given their own, are told where they were loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, OTHER_VALUES, find, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")
SGD = events.Optimizer(1, id=1, optimizer="SGD", groups=[events.ParameterGroup({"lr": 0.1}, [1])], indices=[0])
BLIND = (events.CallModule(1, module=1, training=True, no_grad=True), events.ReturnModule(2, module=1))
CALLED = (events.CallModule(1, module=1, training=True), events.ReturnModule(2, module=1))


def step(number: int) -> list[events.Event]:
    return [
        *CALLED,
        events.OptimizerStep(5, number, optimizer="SGD", optimizer_id=1),
        events.Update(6, number, tensor=1, statistics=OTHER_VALUES),
        events.OptimizerStepEnd(7, number, optimizer="SGD"),
    ]


def own(number: int, names: tuple[str, ...] = ()) -> events.Load:
    return events.Load(3, number, 1, 3, loaded=1, is_own=True, names=names)


NAMES = ("target", "net")


@pytest.mark.parametrize(
    ("happened", "told"),
    [
        pytest.param(
            [*BLIND * 2, *step(0), own(1), *step(1), own(2), *step(2)], ["target-is-the-network"], id="a target"
        ),
        pytest.param([*step(0), own(1), *step(1), own(2), *step(2)], ["model-not-reset"], id="between phases"),
        pytest.param([*step(0), *step(1), own(2)], ["best-weights-not-copied"], id="at the end"),
        pytest.param([*step(0), own(1), *step(1)], [], id="once, before training goes on"),
        pytest.param(
            [*step(0), own(1, NAMES), *step(1), own(2, NAMES)], ["target-is-the-network"], id="by its other name"
        ),
        pytest.param([*step(0), own(1, NAMES), *step(1)], [], id="by its other name, once"),
        pytest.param([*step(0), events.Load(3, 1, 1, 3, loaded=1)], [], id="of another module"),
    ],
)
def test_what_its_own_weights_mean_to_a_module(
    tmp_path: Path, write_trace: WriteTrace, happened: list[events.Event], told: list[str]
) -> None:
    codes = {"target-is-the-network", "model-not-reset", "best-weights-not-copied"}
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), SGD, *happened)
    found = [each for each in find(path) if each.code in codes]
    assert [(each.code, each.name, each.place) for each in found] == [(code, "model", "train.py:20") for code in told]


def test_stored_weights_are_told_where_they_were_stored(tmp_path: Path, write_trace: WriteTrace) -> None:
    stored = events.Location(4, "train.py", 12, "main")
    load = structs.replace(own(2), made=4)
    (finding,) = (
        each
        for each in find(write_trace(tmp_path / "a.jsonl", PLACE, stored, NET, weight(), SGD, *step(0), *step(1), load))
        if each.code == "best-weights-not-copied"
    )
    assert finding.place == "train.py:12"


def test_an_untrained_module_that_is_given_its_own_weights_is_never_updated(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    target = [events.Module(2, "target", "Net", 2), weight(2, "target.w", 2)]
    load = events.Load(3, 1, 2, 3, loaded=1, is_own=True)
    called = [events.CallModule(1, module=2, training=True, no_grad=True), events.ReturnModule(2, module=2)]
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), *target, SGD, *step(0), *called, load, *step(1))
    found = [each for each in find(path) if each.code == "never-updated"]
    assert [(each.name, each.place) for each in found] == [("target", "train.py:20")]


@pytest.mark.parametrize(
    ("loaded", "missing", "unexpected", "is_told"),
    [
        pytest.param(0, ["fc.w", "fc.b"], ["module.fc.w", "module.fc.b"], True, id="a prefix too many"),
        pytest.param(1, ["model.fc.w"], ["fc.w"], True, id="a prefix too few"),
        pytest.param(4, ["head.w"], ["fc.w"], False, id="a new head"),
        pytest.param(0, ["head.w"], ["fc.w"], True, id="nothing was loaded"),
        pytest.param(4, ["head.w"], [], False, id="a part of a checkpoint"),
    ],
)
def test_weights_under_other_names_are_told(
    tmp_path: Path, write_trace: WriteTrace, loaded: int, missing: list[str], unexpected: list[str], is_told: bool
) -> None:
    load = events.Load(
        3, 0, 1, 3, loaded=loaded, missing=missing, unexpected=unexpected, missing_count=len(missing),
        unexpected_count=len(unexpected), strict=False,
    )  # fmt: skip
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), load)
    found = [each for each in find(path) if each.code == "checkpoint-keys-skipped"]
    assert [each.place for each in found] == ["train.py:20"] * is_told


@pytest.mark.parametrize(
    ("optimizer", "momentum", "owner", "place", "is_told"),
    [
        pytest.param("Adam", 0.0, "optimizer", 3, True, id="averages of Adam"),
        pytest.param("SGD", 0.9, "optimizer", 3, True, id="momentum"),
        pytest.param("SGD", 0.0, "optimizer", 3, False, id="no state"),
        pytest.param("SGD", 0.0, "self.scheduler", 3, True, id="a scheduler"),
        pytest.param("Adam", 0.0, "optimizer", 4, False, id="this run was not resumed"),
    ],
)
def test_state_that_is_left_in_a_checkpoint_is_told_if_training_was_resumed(
    tmp_path: Path,
    write_trace: WriteTrace,
    optimizer: str,
    momentum: float,
    owner: str,
    place: int,
    is_told: bool,
) -> None:
    other = events.Location(4, "train.py", 12, "main")
    group = events.ParameterGroup({"momentum": momentum}, [1])
    made = events.Optimizer(1, id=1, optimizer=optimizer, groups=[group], indices=[0])
    load = events.Load(2, 0, 1, place, loaded=1)
    record = events.SourcePattern(3, what="state-left-in-checkpoint", names=[owner, "state"], made=3, other=4)
    stepped = [events.OptimizerStep(4, optimizer=optimizer, optimizer_id=1), events.OptimizerStepEnd(5)]
    path = write_trace(tmp_path / "a.jsonl", PLACE, other, NET, weight(), load, made, record, *stepped)
    found = [each for each in find(path) if each.code == "optimizer-not-resumed"]
    assert [(each.name, each.place) for each in found] == [(owner, "train.py:20")] * is_told


def test_a_model_that_all_folds_share_is_told_where_it_is_trained(tmp_path: Path, write_trace: WriteTrace) -> None:
    other = events.Location(4, "train.py", 12, "main")
    record = events.SourcePattern(3, what="model-shared-by-folds", names=["model"], made=3, other=4)
    path = write_trace(tmp_path / "a.jsonl", PLACE, other, NET, weight(), record)
    (finding,) = (each for each in find(path) if each.code == "model-not-reset")
    assert finding.place == "train.py:20"
    assert finding.reason == "each fold of the loop at train.py:12 goes on with what it learned in the others"
