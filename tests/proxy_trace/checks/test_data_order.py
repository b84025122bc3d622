"""Loaders that give the same batch, the same order, or the same from each worker are told where they begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from proxy_trace.checks import data_order
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")

TRAINED = (events.CallModule(2, module=1, training=True), events.ReturnModule(3, module=1))
EVALUATED = (events.CallModule(2, module=1), events.ReturnModule(3, module=1))


def loading(count: int, workers: int = 0, **fields: Any) -> events.Loading:
    given = fields.pop("given", 8 * count)
    trains = bool(fields.pop("trains", 0))
    sampler = fields.pop("sampler", "Sampler")
    return events.Loading(
        1,
        location=3,
        id=1,
        sampler=sampler,
        batches=8,
        workers=workers,
        count=count,
        given=given,
        trains=trains,
        **fields,
    )


@pytest.mark.parametrize(
    ("record", "calls", "codes"),
    [
        pytest.param(loading(8, first_only=7), TRAINED, ["same-batch"], id="the first batch in each step"),
        pytest.param(loading(8, first_only=7), EVALUATED, [], id="a fixed batch to look at"),
        pytest.param(loading(16, first_only=7), TRAINED, [], id="half of the time"),
        pytest.param(loading(4, same_order=3, trains=1), TRAINED, ["same-order"], id="one order"),
        pytest.param(loading(4, same_order=3), TRAINED, [], id="one order of what trains nothing"),
        pytest.param(loading(8, same_order=3, trains=1), TRAINED, [], id="one order now and then"),
        pytest.param(loading(2, 2, given=8, same_batch=4), TRAINED, ["equal-worker-streams"], id="pairs"),
        pytest.param(loading(2, 2, given=8, same_batch=7), TRAINED, [], id="all alike"),
        pytest.param(loading(2, 2, generator="rng", trains=1), TRAINED, ["equal-worker-streams"], id="copies"),
        pytest.param(loading(2, 2, generator="rng"), TRAINED, [], id="copies of what trains nothing"),
        pytest.param(loading(3, same_order=2, trains=1), TRAINED, [], id="one order, twice"),
        pytest.param(
            loading(3, same_order=2, trains=1, sampler="DistributedSampler"), TRAINED, ["same-order"], id="one epoch"
        ),
        pytest.param(loading(1, unweighted=7), TRAINED, ["samples-without-weight"], id="fewer weights than samples"),
        pytest.param(
            loading(4, changed_samples=3, trains=1), TRAINED, ["data-set-changes"], id="changed in each epoch"
        ),
        pytest.param(loading(4, changed_samples=1, trains=1), TRAINED, [], id="filled in the first epoch"),
        pytest.param(loading(4, changed_samples=3), TRAINED, [], id="changed, and trains nothing"),
        pytest.param(loading(2, 2, given=8, same_batch=1), TRAINED, [], id="twice by chance"),
        pytest.param(
            loading(2, shared=3, samples=9), EVALUATED, ["evaluated-on-training-samples"], id="some of training"
        ),
        pytest.param(loading(2, shared=9, samples=9), EVALUATED, [], id="a part of the training data"),
        pytest.param(loading(2, samples=9), EVALUATED, [], id="other samples"),
        pytest.param(loading(1, dropped=9), TRAINED, ["loader-without-batches"], id="fewer samples than a batch"),
        pytest.param(loading(2, shared=3, samples=9), TRAINED, [], id="some of those of an earlier stage"),
    ],
)
def test_what_a_loader_gives_is_judged(
    tmp_path: Path,
    write_trace: WriteTrace,
    record: events.Event,
    calls: tuple[events.Event, ...],
    codes: list[str],
) -> None:
    found = find(write_trace(tmp_path / "a.jsonl", PLACE, NET, record, *calls))
    told = [(each.code, each.place) for each in found if each.name.startswith("DataLoader")]
    assert told == [(code, "train.py:20") for code in codes]


@pytest.mark.parametrize(
    ("fields", "values", "is_told"),
    [
        pytest.param({"sampler": "SequentialSampler", "trains": 1}, (8, 0, 5), True, id="sorted"),
        pytest.param({"sampler": "SequentialSampler"}, (8, 0, 5), False, id="a loader that trains nothing"),
        pytest.param({"sampler": "RandomSampler", "trains": 1}, (8, 0, 5), False, id="a loader that shuffles"),
        pytest.param({"sampler": "SequentialSampler", "trains": 1}, (6, 0, 5), False, id="batches of something else"),
    ],
)
def test_batches_in_the_order_of_their_classes_are_told(
    tmp_path: Path, write_trace: WriteTrace, fields: dict[str, Any], values: tuple[int, int, int], is_told: bool
) -> None:
    pattern = events.GraphPattern(1, what="classes-in-order", values=values)
    found = find(write_trace(tmp_path / "a.jsonl", PLACE, NET, loading(2, **fields), *TRAINED, pattern))
    told = [(each.code, each.place) for each in found if each.name.startswith("DataLoader")]
    assert told == [("batches-in-class-order", "train.py:20")] * is_told


def test_training_data_that_are_called_others_are_told(tmp_path: Path, write_trace: WriteTrace) -> None:
    place = events.Location(3, "train.py", 42, "main")
    record = events.SourcePattern(1, what="training-data-evaluated", names=["train_set", "val_loader"], made=3)
    (finding,) = find(write_trace(tmp_path / "a.jsonl", place, NET, record), data_order.CHECK)
    assert (finding.code, finding.name, finding.place) == (
        "evaluated-on-training-samples",
        "train_set",
        "train.py:42",
    )


@pytest.mark.parametrize(
    ("fields", "calls", "codes"),
    [
        pytest.param({"held_out": "val_loader"}, EVALUATED, ["evaluated-on-training-samples"], id="by its name"),
        pytest.param({}, EVALUATED, [], id="perhaps a part of the training data on purpose"),
        pytest.param({"held_out": "val_loader"}, TRAINED, [], id="it trains"),
        pytest.param({"held_out": "val_loader", "count": 1}, EVALUATED, [], id="perhaps before a fold has trained"),
    ],
)
def test_held_out_data_that_are_all_training_data(
    fields: dict[str, Any], calls: Any, codes: list[str], tmp_path: Path, write_trace: WriteTrace
) -> None:
    record = loading(**{"count": 2, "shared": 40, "samples": 40, **fields})
    trace = write_trace(tmp_path / "a.jsonl", PLACE, NET, record, *calls)
    assert [finding.code for finding in find(trace, data_order.CHECK)] == codes


@pytest.mark.parametrize(
    "pattern",
    [
        events.SourcePattern(1, what="seed-repeated", names=["torch.manual_seed(0)"], made=3, other=4),
        events.SourcePattern(1, what="batch-unused", names=["xb", "yb"], made=3),
    ],
    ids=["a seed", "an unused batch"],
)
@pytest.mark.parametrize(
    ("bits", "is_told"),
    [(["a", "a", "a"], True), (["a", "a", "b"], False), (["a", "a"], False), ([None] * 3, False)],
    ids=["equal", "another one", "too few", "not read"],
)
def test_code_that_repeats_the_inputs(
    tmp_path: Path, write_trace: WriteTrace, pattern: events.SourcePattern, bits: list[str | None], is_told: bool
) -> None:
    lines = [events.Location(3, "train.py", 20, "draw"), events.Location(4, "train.py", 21, "draw")]
    calls: list[events.Event] = []
    for step, each in enumerate(bits):
        given = events.Statistics(0.0, 1.0, bits=each)
        calls += [
            events.CallModule(2, step, 1, training=True, input_ids=[7]),
            events.Input(2, step, 1, type="float32[4, 2]", input_id=7, statistics=given),
            events.CallModule(2, step, 2, training=True, input_ids=[7]),
            events.ReturnModule(3, step, 2),
            events.ReturnModule(3, step, 1),
        ]
    layer = events.Module(2, "model.fc", "Linear", 1, 1)
    path = write_trace(tmp_path / "a.jsonl", *lines, NET, layer, pattern, *calls)
    found = [(each.code, each.place) for each in find(path, data_order.CHECK)]
    assert found == [("same-batch", "train.py:20")] * is_told
