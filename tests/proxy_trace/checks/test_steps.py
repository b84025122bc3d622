"""Steps that find no gradient, and optimizers that never step, are told with what came before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import CALLS, NET, OTHER_VALUES, VALUES, find, said, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACES = (events.Location(3, "train.py", 20, "main"), events.Location(4, "train.py", 9, "main"))
ZEROS = events.Statistics(0.0, 0.0, 0.0)
BACKWARD = (events.Backward(3, location=3, loss=1), events.BackwardEnd(4))


def optimizer(number: int = 1, *tensors: int) -> events.Optimizer:
    group = events.ParameterGroup({"lr": 0.1}, tensors or (1,))
    return events.Optimizer(1, location=4, id=number, optimizer="SGD", groups=[group], indices=[0], made=4)


def loss(*, inside: bool, name: str = "MeanBackward0") -> events.Loss:
    nodes = [events.LossNode(name), events.LossNode("AddmmBackward0", [2, 3], 0, inside=inside)]
    return events.Loss(2, location=3, id=1, nodes=nodes, made=4)


def step(gradient: events.Gradient, number: int = 1) -> list[events.Event]:
    return [
        events.OptimizerStep(5, location=3, optimizer="SGD", optimizer_id=number),
        gradient,
        events.OptimizerStepEnd(7, optimizer="SGD"),
    ]


MISSING = events.Gradient(6, tensor=1)
CLEARED = events.Gradient(6, tensor=1, cleared=True)
ZERO = events.Gradient(6, tensor=1, statistics=ZEROS)
FOUND = events.Gradient(6, tensor=1, statistics=VALUES)


@pytest.mark.parametrize(
    ("is_inside", "iteration", "told"),
    [
        pytest.param(True, [*BACKWARD, *step(CLEARED)], [("grad-cleared-before-step", "train.py:20")], id="cleared"),
        pytest.param(True, step(MISSING), [("step-without-backward", "train.py:20")], id="no backward pass"),
        pytest.param(False, [*BACKWARD, *step(MISSING)], [("loss-detached", "train.py:9")], id="detached"),
        pytest.param(True, [*BACKWARD, *step(MISSING)], [], id="another part has the gradients"),
        pytest.param(True, [*BACKWARD, *step(ZERO)], [("loss-constant", "train.py:9")], id="constant"),
        pytest.param(True, [*BACKWARD, *step(FOUND)], [], id="gradients"),
    ],
)
def test_steps_without_gradients_are_told_with_their_cause(
    tmp_path: Path,
    write_trace: WriteTrace,
    is_inside: bool,
    iteration: list[events.Event],
    told: list[tuple[str, str]],
) -> None:
    made = [*PLACES, NET, weight(), optimizer(), *CALLS, loss(inside=is_inside)]
    path = write_trace(tmp_path / "a.jsonl", *made, *iteration * 4)
    codes = {"grad-cleared-before-step", "step-without-backward", "loss-detached", "loss-constant"}
    assert [(each.code, each.place) for each in find(path) if each.code in codes] == told
    assert said(path, "steps")[0] == ("finding" if told else "passed")


OTHER = events.Gradient(6, tensor=1, statistics=OTHER_VALUES)


@pytest.mark.parametrize(
    ("iteration", "told"),
    [
        pytest.param([*BACKWARD, *step(FOUND) * 2], ["train.py:20"], id="twice with one gradient"),
        pytest.param([*BACKWARD, *step(FOUND), *BACKWARD, *step(FOUND)], [], id="by chance the same"),
        pytest.param([*BACKWARD, *step(FOUND), *step(OTHER)], [], id="computed by hand"),
        pytest.param([*BACKWARD, *step(FOUND), *step(FOUND, 2)], [], id="of another optimizer"),
    ],
)
def test_a_gradient_that_is_used_again_is_told(
    tmp_path: Path, write_trace: WriteTrace, iteration: list[events.Event], told: list[str]
) -> None:
    made = [*PLACES, NET, weight(), optimizer(), optimizer(2), *CALLS, loss(inside=True)]
    path = write_trace(tmp_path / "a.jsonl", *made, *iteration * 4)
    assert [each.place for each in find(path) if each.code == "step-without-backward"] == told


def dropping(count: int, passes: int = 4) -> list[events.Event]:
    """A step that finds the gradients of the last of its passes: those of `count` others were cleared."""
    begun = events.OptimizerStep(5, location=3, optimizer="SGD", optimizer_id=1, dropped=count)
    return [*BACKWARD * passes, begun, FOUND, events.OptimizerStepEnd(7, optimizer="SGD")]


@pytest.mark.parametrize(
    ("name", "happened", "is_told"),
    [
        pytest.param("DivBackward0", dropping(3) * 10, True, id="a loss that is divided"),
        pytest.param("NllLossBackward0", dropping(3) * 10, False, id="a loss as it is"),
        pytest.param("DivBackward0", [*dropping(3) * 5, *dropping(0) * 5], False, id="half of the steps"),
        pytest.param("DivBackward0", dropping(0) * 10, False, id="none"),
        pytest.param("DivBackward0", [*dropping(0) * 3, *dropping(1, 6)] * 3, True, id="the end of each epoch"),
        pytest.param("DivBackward0", [*dropping(0) * 3, *dropping(0, 6)] * 3, False, id="longer steps"),
    ],
)
def test_accumulation_that_clears_in_each_pass_is_told(
    tmp_path: Path, write_trace: WriteTrace, name: str, happened: list[events.Event], is_told: bool
) -> None:
    made = [*PLACES, NET, weight(), optimizer(), *CALLS, loss(inside=True, name=name)]
    path = write_trace(tmp_path / "a.jsonl", *made, *happened)
    assert [each.code for each in find(path) if each.code == "grad-cleared-before-step"] == [
        "grad-cleared-before-step"
    ] * is_told


@pytest.mark.parametrize(
    ("line", "happened", "is_told"),
    [
        pytest.param(3, dropping(3) * 10, True, id="at the step"),
        pytest.param(4, dropping(3) * 10, False, id="at another step"),
        pytest.param(3, dropping(0) * 10, False, id="nothing is cleared"),
    ],
)
def test_a_step_after_a_loop_that_clears_in_each_pass(
    tmp_path: Path, write_trace: WriteTrace, line: int, happened: list[events.Event], is_told: bool
) -> None:
    source = events.SourcePattern(1, what="step-after-loop", names=["optimizer"], made=line, other=4)
    made = [*PLACES, NET, weight(), optimizer(), *CALLS, loss(inside=True, name="NllLossBackward0"), source]
    found = find(write_trace(tmp_path / "a.jsonl", *made, *happened))
    assert [each.code for each in found if "clear" in each.code] == ["grad-cleared-before-step"] * is_told
    is_summed = any(each.code == "accumulation-not-scaled" for each in found)
    assert is_summed == (happened == dropping(0) * 10)


def test_a_part_that_is_trained_in_every_third_step_is_none(tmp_path: Path, write_trace: WriteTrace) -> None:
    turns = [*BACKWARD, *step(FOUND), *step(MISSING, 2)] * 3 + [*BACKWARD, *step(MISSING), *step(FOUND, 2)] * 3
    path = write_trace(
        tmp_path / "a.jsonl", *PLACES, NET, weight(), optimizer(), optimizer(2), *CALLS, loss(inside=True), *turns
    )
    assert said(path, "steps") == ("passed", [])


@pytest.mark.parametrize(
    ("name", "other_steps", "told"),
    [
        pytest.param("DivBackward0", False, ["accumulation-never-stepped"], id="a scaled loss"),
        pytest.param("DivBackward0", True, ["backward-without-step"], id="another optimizer steps"),
        pytest.param("NllLossBackward0", False, ["backward-without-step"], id="a loss as it is"),
    ],
)
def test_an_optimizer_that_never_steps_is_told(
    tmp_path: Path, write_trace: WriteTrace, name: str, other_steps: bool, told: list[str]
) -> None:
    others = [events.Module(2, "other", "Net", 2), weight(2, "other.w", 2), optimizer(2, 2)]
    trained = step(events.Gradient(6, tensor=2, statistics=VALUES), 2)
    updated = [*trained[:2], events.Update(6, tensor=2, statistics=OTHER_VALUES), trained[2]]
    happened = [*CALLS, *BACKWARD, *(updated if other_steps else [])] * 3
    path = write_trace(
        tmp_path / "a.jsonl", *PLACES, NET, weight(), *others, optimizer(), loss(inside=True, name=name), *happened,
        ends=True,
    )  # fmt: skip
    found = [each for each in find(path) if each.code in ("accumulation-never-stepped", "backward-without-step")]
    assert [each.code for each in found] == told
    assert found[0].place == "train.py:20"


def test_an_optimizer_for_what_was_never_called_is_none(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(
        tmp_path / "a.jsonl", *PLACES, NET, weight(), optimizer(), loss(inside=True), *BACKWARD * 3, ends=True
    )
    assert said(path, "steps") == ("passed", [])


@pytest.mark.parametrize(
    ("windows", "batches", "scaled", "dropped", "is_told"),
    [
        pytest.param([4, 4, 6, 4, 6, 4], 10, True, 0, True, id="carried into the next epoch"),
        pytest.param([4, 4, 2, 4, 4, 2], 10, True, 0, False, id="stepped at the end of an epoch"),
        pytest.param([4, 4, 4, 4, 4, 4], 10, True, 0, False, id="counted over epochs"),
        pytest.param([4, 4, 6, 4, 6, 4], 12, True, 0, False, id="another number of batches"),
        pytest.param([4, 4, 6, 4, 4, 4], 10, True, 0, False, id="once"),
        pytest.param([4, 4, 8, 4, 8, 4], 8, True, 0, False, id="a step that was skipped"),
        pytest.param([4, 4, 6, 4, 6, 4], 10, False, 0, False, id="summed on purpose"),
        pytest.param([4, 4, 6, 4, 6, 4], 10, True, 1, False, id="cleared at the start of an epoch"),
        pytest.param([4, 5, 6, 4, 6, 5], 10, True, 0, False, id="numbers that vary"),
    ],
)
def test_gradients_that_are_carried_into_the_next_epoch(
    windows: list[int],
    batches: int,
    scaled: bool,
    dropped: int,
    is_told: bool,
    tmp_path: Path,
    write_trace: WriteTrace,
) -> None:
    happened: list[events.Event] = []
    for passes in windows:
        begun = events.OptimizerStep(5, location=3, optimizer="SGD", optimizer_id=1, dropped=dropped)
        happened += [*BACKWARD * passes, begun, FOUND, events.OptimizerStepEnd(7, optimizer="SGD")]
    loader = events.Loading(1, id=1, batches=batches, trains=True)
    way = loss(inside=True, name="DivBackward0" if scaled else "MeanBackward0")
    path = write_trace(tmp_path / "a.jsonl", *PLACES, NET, weight(), way, loader, optimizer(), *happened)
    found = [each.place for each in find(path) if each.code == "accumulation-crosses-epochs"]
    assert found == ["train.py:20"] * is_told
