"""Data that the source shows to be prepared wrongly are told at the line at fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_trace.checks import preparation
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACES = (events.Location(3, "train.py", 20, "main"), events.Location(4, "train.py", 10, "main"))


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (
            events.SourcePattern(1, what="shuffled-apart", names=["x", "y"], made=3, other=4),
            ("labels-shuffled-apart", "x and y", "they are shuffled by two permutations, the first at train.py:10"),
        ),
        (
            events.SourcePattern(1, what="augmented-apart", names=["image", "mask"], made=3),
            ("mask-augmented-apart", "image", "`mask` is not moved with it"),
        ),
        (
            events.SourcePattern(1, what="scaler-fitted-on-all", names=["raw"], made=3, other=4),
            ("scaler-sees-test-data", "raw", "a scaler is fitted to all of it, before it is split at train.py:10"),
        ),
        (
            events.SourcePattern(1, what="evaluation-augmented", names=["val_transform", "RandomCrop"], made=3),
            ("evaluation-augmented", "val_transform", "`RandomCrop` changes it at random"),
        ),
        (
            events.SourcePattern(1, what="evaluation-not-normalised", names=["val", "train"], made=3, other=4),
            ("evaluation-not-normalized", "val", "it is not normalised as `train` is, at train.py:10"),
        ),
        (
            events.SourcePattern(1, what="labels-interpolated", names=["mask"], made=3, other=4),
            ("labels-interpolated", "mask", "its labels are averaged, and cut to integers at train.py:10"),
        ),
        (
            events.SourcePattern(1, what="scaled-by-own-statistics", names=["x_val", "x_train"], made=3, other=4),
            (
                "evaluation-own-statistics",
                "x_val",
                "its own mean and deviation are used, and not those of `x_train`, whose own are used at train.py:10",
            ),
        ),
        (
            events.SourcePattern(1, what="unsigned-difference", names=["after", "before"], made=3),
            ("byte-difference-wraps", "after - before", "both are uint8, and negative differences wrap around"),
        ),
    ],
)
def test_a_mistake_is_told(
    tmp_path: Path, write_trace: WriteTrace, record: events.Event, told: tuple[str, str, str]
) -> None:
    (finding,) = find(write_trace(tmp_path / "a.jsonl", *PLACES, NET, record), preparation.CHECK)
    assert (finding.code, finding.name, finding.reason) == told
    assert finding.place == "train.py:20"


def test_other_patterns_are_of_other_checks(tmp_path: Path, write_trace: WriteTrace) -> None:
    record = events.SourcePattern(1, what="sizes-permuted", names=["h, w, c", "c, h, w"], made=3)
    assert find(write_trace(tmp_path / "a.jsonl", *PLACES, NET, record), preparation.CHECK) == []
