"""Linear layers with nothing between them are told where the first is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, OTHER_VALUES, STEP, VALUES, find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")


def linear(number: int, width: int, height: int) -> list[events.Event]:
    name = f"model.fc{number}"
    return [
        events.Module(number, name, "Linear", 1, 1, made=3, settings={"in_features": width, "out_features": height}),
        events.Parameter(
            number, f"{name}.weight", number, f"float32[{height}, {width}]", requires_grad=True, statistics=VALUES
        ),
    ]


BIAS = events.Parameter(9, "model.fc2.bias", 2, "float32[8]", requires_grad=True, statistics=VALUES)
PATTERN = events.GraphPattern(2, what="linear-linear", weights=[2, 3], values=[1])
CHANGES = [events.Update(4, tensor=number, statistics=OTHER_VALUES) for number in (2, 3)]


def called(second: int) -> list[events.Event]:
    """A model calls two layers, the second at another place."""
    return [
        events.CallModule(1, module=1, location=3, training=True),
        events.CallModule(1, module=2, location=4, training=True),
        events.ReturnModule(1, module=2),
        events.CallModule(1, module=3, location=second, training=True),
        events.ReturnModule(1, module=3),
        events.ReturnModule(1, module=1),
    ]


def test_layers_that_a_model_calls_itself_are_told_where_it_does(tmp_path: Path, write_trace: WriteTrace) -> None:
    forward = events.Location(4, "net.py", 9, "Net.forward")
    happened = [*linear(2, 6, 8), *linear(3, 8, 4), BIAS, *called(4), events.Backward(1), PATTERN, *CHANGES, STEP]
    path = write_trace(tmp_path / "a.jsonl", PLACE, forward, NET, *happened)
    found = [(each.name, each.place) for each in find(path) if each.code == "missing-activation"]
    assert found == [("model.fc2", "net.py:9")]


@pytest.mark.parametrize(
    ("middle", "bias", "changes", "is_told"),
    [
        pytest.param(8, [BIAS], CHANGES, True, id="no activation"),
        pytest.param(2, [BIAS], CHANGES, False, id="a low rank"),
        pytest.param(8, [], CHANGES, False, id="no bias, as an adapter"),
        pytest.param(8, [BIAS], CHANGES[:1], False, id="one is not trained"),
    ],
)
def test_what_is_one_linear_layer_is_told(
    tmp_path: Path,
    write_trace: WriteTrace,
    middle: int,
    bias: list[events.Event],
    changes: list[events.Event],
    is_told: bool,
) -> None:
    layers = [*linear(2, 6, middle), *linear(3, middle, 4), *bias]
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, *layers, events.Backward(1), PATTERN, *changes, STEP)
    found = [(each.name, each.place) for each in find(path) if each.code == "missing-activation"]
    assert found == [("model.fc2", "train.py:20")] * is_told


def test_a_model_without_any_activation_is_a_note(tmp_path: Path, write_trace: WriteTrace) -> None:
    pattern = msgspec.structs.replace(PATTERN, values=[0])
    layers = [*linear(2, 6, 8), *linear(3, 8, 4), BIAS]
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, *layers, events.Backward(1), pattern, *CHANGES, STEP)
    assert [each.severity for each in find(path) if each.code == "linear-model" and each.place] == ["note"]


@pytest.mark.parametrize("is_called", [False, True])
def test_a_linear_model_with_an_activation_that_it_forgets_is_a_warning(
    tmp_path: Path, write_trace: WriteTrace, is_called: bool
) -> None:
    act = events.Module(5, "model.act", "ReLU", 1, 1)
    call = [events.CallModule(1, module=5, training=True), events.ReturnModule(1, module=5)] * is_called
    layers = [*linear(2, 6, 8), *linear(3, 8, 4), BIAS, act, *called(4), *call, events.Backward(1)]
    pattern = msgspec.structs.replace(PATTERN, values=[0])
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, *layers, pattern, *CHANGES, STEP)
    found = [(each.code, each.evidence) for each in find(path) if each.name == "model.fc2"]
    assert found == [("linear-model", [])] if is_called else [("missing-activation", ["model.act was never called"])]
