"""Schedulers that are never advanced are told where they are created, once optimizers have stepped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_trace.checks import unread_schedulers
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, STEP, find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 21, "main")
RECORD = events.SourcePattern(1, what="scheduler-unread", names=["scheduler"], made=3)


@pytest.mark.parametrize(("steps", "is_told"), [(2, True), (1, False)])
def test_a_scheduler_that_is_never_advanced(tmp_path: Path, write_trace: WriteTrace, steps: int, is_told: bool) -> None:
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, RECORD, *[STEP] * steps)
    found = [(each.code, each.name, each.place) for each in find(path, unread_schedulers.CHECK)]
    assert found == [("scheduler-never-advanced", "scheduler", "train.py:21")] * is_told


def test_schedulers_that_one_line_creates_are_told_once(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, RECORD, RECORD, STEP, STEP)
    assert len(find(path, unread_schedulers.CHECK)) == 1
