"""Loops that end in their first pass are told at the `return`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_trace.checks import loops
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACES = (events.Location(3, "train.py", 21, "train"), events.Location(4, "train.py", 14, "train"))


def test_a_loop_that_is_left_is_told_at_its_return(tmp_path: Path, write_trace: WriteTrace) -> None:
    record = events.SourcePattern(1, what="loop-left", names=["total", "seen"], made=3, other=4)
    (finding,) = find(write_trace(tmp_path / "a.jsonl", *PLACES, NET, record), loops.CHECK)
    assert (finding.code, finding.name, finding.place) == ("loop-left-early", "total and seen", "train.py:21")
    assert finding.reason == "the loop at train.py:14 returns it in its first pass"


def test_other_sources_say_nothing_of_loops(tmp_path: Path, write_trace: WriteTrace) -> None:
    record = events.SourcePattern(1, what="count-overwritten", names=["total"], made=3, other=4)
    assert find(write_trace(tmp_path / "a.jsonl", *PLACES, NET, record), loops.CHECK) == []
