"""Metrics of the last batch are told, unless there is only one batch; and metrics of all epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_trace.checks import metrics
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACES = (events.Location(3, "train.py", 21, "evaluate"), events.Location(4, "train.py", 20, "evaluate"))
RECORD = events.SourcePattern(1, what="count-overwritten", names=["correct"], made=3, other=4)


def loading(batches: int) -> events.Loading:
    return events.Loading(2, location=4, id=1, sampler="SequentialSampler", batches=batches, count=1)


def test_an_overwritten_count_is_told_at_its_line(tmp_path: Path, write_trace: WriteTrace) -> None:
    trace = write_trace(tmp_path / "a.jsonl", *PLACES, NET, RECORD, loading(4))
    (finding,) = find(trace, metrics.CHECK)
    assert (finding.code, finding.name, finding.place) == ("metric-of-last-batch", "correct", "train.py:21")


def test_the_only_batch_may_be_all(tmp_path: Path, write_trace: WriteTrace) -> None:
    assert find(write_trace(tmp_path / "a.jsonl", *PLACES, NET, RECORD, loading(1)), metrics.CHECK) == []


def test_a_sum_over_all_epochs_is_told_at_its_line(tmp_path: Path, write_trace: WriteTrace) -> None:
    record = events.SourcePattern(1, what="count-not-reset", names=["correct"], made=3, other=4)
    (finding,) = find(write_trace(tmp_path / "a.jsonl", *PLACES, NET, record), metrics.CHECK)
    assert (finding.code, finding.name, finding.place) == ("metric-not-reset", "correct", "train.py:21")


def test_an_unclamped_intersection_is_told_at_its_line(tmp_path: Path, write_trace: WriteTrace) -> None:
    record = events.SourcePattern(1, what="intersection-unclamped", names=["w * h"], made=3)
    (finding,) = find(write_trace(tmp_path / "a.jsonl", *PLACES, NET, record), metrics.CHECK)
    assert (finding.code, finding.name, finding.place) == ("intersection-not-clamped", "w * h", "train.py:21")


@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("count-per-batch", "metric-per-batch"),
        ("loss-per-sample", "loss-per-sample"),
        ("argmax-of-batch", "argmax-of-batch"),
    ],
)
@pytest.mark.parametrize(
    ("sizes", "is_told"), [((25,), True), ((1,), False), ((25, 1), False), ((0,), False), ((), False)]
)
def test_what_is_wrong_where_batches_have_several_samples(
    tmp_path: Path, write_trace: WriteTrace, what: str, code: str, sizes: tuple[int, ...], is_told: bool
) -> None:
    record = events.SourcePattern(1, what=what, names=["correct"], made=3, other=4)
    loaders = [
        events.Loading(2, location=4, id=number, sampler="SequentialSampler", batches=4, count=1, batch_size=size)
        for number, size in enumerate(sizes, 1)
    ]
    trace = write_trace(tmp_path / "a.jsonl", *PLACES, NET, record, *loaders)
    found = [(each.code, each.name, each.place) for each in find(trace, metrics.CHECK)]
    assert found == [(code, "correct", "train.py:21")] * is_told
