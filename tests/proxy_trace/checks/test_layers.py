"""Layers created in each call, and units that begin equal, are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import CALLS, NET, OTHER_VALUES, STEP, find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACES = (events.Location(3, "net.py", 20, "Net.forward"), events.Location(4, "net.py", 9, "Net.__init__"))


def holds(number: int) -> events.Statistics:
    return events.Statistics(-1.0, 1.0, 2.0, bits=f"{number:016x}")


@pytest.mark.parametrize(
    ("makes", "calls_of_each", "is_told"),
    [(8, 1, True), (3, 1, False), (8, 10, False)],
    ids=["in each call", "a few times", "for each of several phases"],
)
def test_a_layer_that_is_made_in_each_call_is_told_where_it_is_called(
    tmp_path: Path, write_trace: WriteTrace, makes: int, calls_of_each: int, is_told: bool
) -> None:
    layer = events.Module(2, "model.Conv2d", "Conv2d", 1, 1)
    called = [events.CallModule(1, module=2, location=3, training=True), events.ReturnModule(2, module=2)]
    happened: list[events.Event] = []
    for number in range(makes):
        made = events.Parameter(1, "model.Conv2d.weight", 2, "float32[2, 2]", "cpu", True, statistics=holds(number))
        happened += [CALLS[0], made, *called * calls_of_each, CALLS[1]]
    path = write_trace(tmp_path / "a.jsonl", *PLACES, NET, layer, *happened, STEP)
    found = [each for each in find(path) if each.code == "layers-made-in-forward"]
    assert [(each.name, each.place) for each in found] == [("model.Conv2d", "net.py:20")] * is_told


@pytest.mark.parametrize("repeated", [0, 4])
def test_a_list_that_is_one_layer_is_told_where_it_is_made(
    tmp_path: Path, write_trace: WriteTrace, repeated: int
) -> None:
    blocks = events.Module(2, "model.blocks", "ModuleList", 1, 1, parameters=12, made=4, repeated=repeated)
    held = events.Parameter(1, "model.blocks.0.weight", 2, "float32[3, 4]", "cpu", True, statistics=holds(1))
    path = write_trace(tmp_path / "a.jsonl", *PLACES, NET, blocks, held, *CALLS, STEP)
    found = [each for each in find(path) if each.code == "layer-repeated"]
    assert [(each.name, each.place) for each in found] == [("model.blocks", "net.py:9")] * bool(repeated)
    assert [each.reason for each in found] == ["one module is at all 4 positions"] * bool(repeated)


ONE, RANDOM, ZEROS = (0.5, 0.5), (-1.0, 1.0), (0.0, 0.0)


@pytest.mark.parametrize(
    ("type_", "first", "bias", "second", "is_told"),
    [
        pytest.param("Linear", ONE, ZEROS, ONE, True, id="both of one number"),
        pytest.param("Linear", ONE, RANDOM, ONE, False, id="biases that tell the units apart"),
        pytest.param("Linear", ONE, ZEROS, RANDOM, False, id="random after one number"),
        pytest.param("Linear", ZEROS, ZEROS, ZEROS, False, id="zeros"),
        pytest.param("Scale", ONE, ZEROS, ONE, False, id="no layer with units"),
    ],
)
def test_layers_of_one_number_are_told_where_they_are_made(
    tmp_path: Path,
    write_trace: WriteTrace,
    type_: str,
    first: tuple[float, float],
    bias: tuple[float, float],
    second: tuple[float, float],
    is_told: bool,
) -> None:
    layers = [events.Module(number, f"model.fc{number}", type_, 1, 1, made=4) for number in (2, 3)]
    held = [
        (2, "weight", "float32[4, 4]", first),
        (2, "bias", "float32[4]", bias),
        (3, "weight", "float32[4, 4]", second),
    ]
    parameters = [
        events.Parameter(
            number,
            f"model.fc{module}.{name}",
            module,
            shape,
            "cpu",
            True,
            statistics=events.Statistics(*ends, 2.0, bits="a" * 16),
        )
        for number, (module, name, shape, ends) in enumerate(held, 1)
    ]
    trained = [events.Update(5, tensor=number, statistics=OTHER_VALUES) for number in (1, 2, 3)]
    backward = [events.Backward(3), events.BackwardEnd(4)]
    path = write_trace(tmp_path / "a.jsonl", *PLACES, NET, *layers, *parameters, *CALLS, *backward, *trained, STEP)
    found = [each for each in find(path) if each.code == "equal-units"]
    assert [(each.name, each.place) for each in found] == [("model.fc2.weight", "net.py:9")] * is_told
