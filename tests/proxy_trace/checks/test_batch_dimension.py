"""Layers that take the samples for a sequence are told where they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import BACKWARD, NET, find

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


def test_probabilities_of_classes_that_sum_to_one_over_the_samples_are_told(
    tmp_path: Path, write_trace: WriteTrace
) -> None:
    pattern = events.GraphPattern(5, location=3, what="class-softmax", shape=(8, 5))
    happened = [*call("float32[8, 4]", "float32[8, 4]", "float32[8, 5]"), pattern] * 2
    found = find(write_trace(tmp_path / "a.jsonl", PLACE, NET, *happened))
    assert [each.reason for each in found if each.code == "softmax-over-batch"] == [
        "the probabilities of classes sum to 1 over the samples, of shape (8, 5)"
    ]


POSITIONS = events.Module(2, "model.pos", "PositionalEncoding", 1, 1)
LINE = events.Location(4, "net.py", 30, "forward")


def positioned(given: str, added: str, gave: str, *, dim: int, batch_first: bool | None) -> list[events.Event]:
    """A model that adds positions, and has an attention unless `batch_first` is None."""
    calls = [
        events.CallModule(1, module=1, inputs=[given], training=True),
        events.CallModule(2, module=2, inputs=[added], training=True),
        events.ReturnModule(3, module=2, outputs=[added]),
    ]
    if batch_first is not None:
        calls += [
            events.CallModule(3, module=3, inputs=[added], training=True),
            events.ReturnModule(3, module=3, outputs=[added]),
        ]
    calls.append(events.ReturnModule(4, module=1, outputs=[gave]))
    attention = events.Module(3, "model.attn", "MultiheadAttention", 1, 1, settings={"batch_first": bool(batch_first)})
    shape = (1, 99, 4) if dim else (99, 1, 4)
    pattern = events.GraphPattern(5, module=2, what="position-slice", dim=dim, shape=shape, made=4)
    return [NET, POSITIONS, attention, LINE, *calls, pattern, *BACKWARD, *calls * 2]


@pytest.mark.parametrize(
    ("added", "gave", "dim", "batch_first", "is_told"),
    [
        pytest.param("float32[8, 5, 4]", "float32[8, 5, 9]", 0, True, True, id="batch first"),
        pytest.param("float32[5, 8, 4]", "float32[5, 8, 9]", 0, False, False, id="sequence first"),
        pytest.param("float32[8, 5, 4]", "float32[8, 5, 9]", 1, True, False, id="along the sequence"),
        pytest.param("float32[5, 8, 4]", "float32[5, 8, 9]", 1, False, True, id="along the second, the batch"),
        pytest.param("float32[8, 5, 4]", "float32[8, 2]", 0, None, True, id="no layer of a sequence"),
        pytest.param("float32[8, 5, 4]", "float32[8, 5, 9]", 0, None, False, id="nothing tells which it is"),
        pytest.param("float32[5, 5, 4]", "float32[5, 5, 9]", 0, True, False, id="of one size"),
    ],
)
def test_positions_are_added_along_the_sequence(
    added: str, gave: str, dim: int, batch_first: bool | None, is_told: bool, tmp_path: Path, write_trace: WriteTrace
) -> None:
    given = added.replace("float32", "int64").replace(", 4]", "]")
    path = write_trace(tmp_path / "a.jsonl", *positioned(given, added, gave, dim=dim, batch_first=batch_first))
    found = [each for each in find(path) if each.code == "positions-along-batch"]
    assert [(each.name, each.place) for each in found] == ([("model.pos", "net.py:30")] if is_told else [])


def test_attention_along_each_dimension_in_turn_is_right(tmp_path: Path, write_trace: WriteTrace) -> None:
    """Of times and sensors; the positions are those of the times."""
    records = positioned("float32[8, 5, 4]", "float32[8, 5, 4]", "float32[8, 2]", dim=0, batch_first=True)
    swapped = events.CallModule(3, module=3, inputs=["float32[5, 8, 4]"], training=True)
    end = [index for index, each in enumerate(records) if isinstance(each, events.ReturnModule) and each.module == 1]
    for index in reversed(end):
        records[index:index] = [swapped, events.ReturnModule(3, module=3, outputs=["float32[5, 8, 4]"])]
    path = write_trace(tmp_path / "a.jsonl", *records)
    assert not [each for each in find(path) if each.code == "positions-along-batch"]


def test_a_model_that_keeps_both_dimensions_of_numbers_says_nothing(tmp_path: Path, write_trace: WriteTrace) -> None:
    records = positioned("float32[8, 5, 4]", "float32[8, 5, 4]", "float32[8, 5, 9]", dim=0, batch_first=True)
    assert not [
        each for each in find(write_trace(tmp_path / "a.jsonl", *records)) if each.code == "positions-along-batch"
    ]
