"""Layers that take the samples for a sequence are told where they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")

LSTM = events.Module(2, "model.rnn", "LSTM", 1, 1, made=3, settings={"batch_first": False})


def call(given: str, inside: str, gave: str) -> list[events.Event]:
    return [
        events.CallModule(1, module=1, inputs=[given], training=True),
        events.CallModule(2, module=2, inputs=[inside], training=True),
        events.ReturnModule(3, module=2, outputs=[inside]),
        events.ReturnModule(4, module=1, outputs=[gave]),
    ]


@pytest.mark.parametrize(
    ("given", "inside", "gave", "is_told"),
    [
        pytest.param("float32[8, 5, 4]", "float32[8, 5, 4]", "float32[8, 2]", True, id="batch first"),
        pytest.param("float32[8, 5, 4]", "float32[5, 8, 4]", "float32[8, 2]", False, id="transposed"),
        pytest.param("int64[8, 5]", "float32[8, 5, 4]", "float32[8, 5, 9]", False, id="a language model"),
        pytest.param("float32[5, 5, 4]", "float32[5, 5, 4]", "float32[5, 2]", False, id="of one size"),
        pytest.param("float32[8, 1, 4]", "float32[8, 1, 4]", "float32[8, 2]", False, id="one sample"),
    ],
)
def test_sizes_tell_which_dimension_is_that_of_the_samples(
    tmp_path: Path, write_trace: WriteTrace, given: str, inside: str, gave: str, is_told: bool
) -> None:
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, LSTM, *call(given, inside, gave) * 2)
    found = [(each.name, each.place) for each in find(path) if each.code == "batch-dimension-mixed"]
    assert found == [("model.rnn", "train.py:20")] * is_told


def test_a_layer_that_takes_a_softmax_over_the_samples_is_told_where_it_is_called(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    layer = events.Module(3, "model.softmax", "Softmax", 1, 1, settings={"dim": 0})
    forward = events.Location(4, "net.py", 9, "Net.forward")
    of_layer = [events.CallModule(2, module=3, location=4, training=True), events.ReturnModule(2, module=3)]
    first, *rest = call("float32[8, 5, 4]", "float32[5, 8, 4]", "float32[8, 2]")
    softmax = events.GraphPattern(5, location=3, what="softmax", dim=0, shape=(8, 5))
    happened = [first, *of_layer, *rest, softmax] * 2
    found = find(write_trace(tmp_path / "a.jsonl", PLACE, forward, NET, LSTM, layer, *happened))
    assert [(each.name, each.place) for each in found if each.code == "softmax-over-batch"] == [
        ("model.softmax", "net.py:9")
    ]


@pytest.mark.parametrize(("shape", "is_told"), [((8, 5), True), ((5, 8), False), ((8, 8), False)])
def test_a_softmax_over_the_samples_is_told(
    tmp_path: Path, write_trace: WriteTrace, shape: tuple[int, int], is_told: bool
) -> None:
    softmax = events.GraphPattern(5, location=3, what="softmax", dim=0, shape=shape)
    happened = [*call("float32[8, 5, 4]", "float32[5, 8, 4]", "float32[8, 2]"), softmax] * 2
    found = find(write_trace(tmp_path / "a.jsonl", PLACE, NET, LSTM, *happened))
    assert ["softmax-over-batch" in {each.code for each in found}] == [is_told]
