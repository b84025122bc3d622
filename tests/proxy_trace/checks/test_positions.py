"""Positions in half precision are told where they are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_trace.checks import positions
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


def test_positions_that_repeat_are_told_at_their_line(tmp_path: Path, write_trace: WriteTrace) -> None:
    places = [events.Location(3, "rotary.py", 20, "forward"), events.Location(4, "train.py", 9, "main")]
    seen = events.GraphPattern(2, module=1, location=4, what="positions-repeat", dim=256, shape=[300], made=3)
    (finding,) = find(write_trace(tmp_path / "a.jsonl", *places, NET, seen), positions.CHECK)
    assert (finding.code, finding.name, finding.place) == ("positions-repeat", "model", "rotary.py:20")
    assert finding.reason == "of 300 positions, those above 256 are rounded"
    assert finding.evidence == ["256 and 257 are the same number"]
