"""Graphs that stay in memory are told once for each line that keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_trace.checks import kept_graphs
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


def test_kept_graphs_are_told_at_their_line(tmp_path: Path, write_trace: WriteTrace) -> None:
    places = (events.Location(1, "a.py", 5, "train"), events.Location(2, "a.py", 8, "train"))
    record = events.GraphPattern(1, location=1, what="graph-kept", values=[24], made=2)
    (finding,) = find(write_trace(tmp_path / "a.jsonl", *places, NET, record, record), kept_graphs.CHECK)
    assert (finding.code, finding.severity, finding.place) == ("graph-kept", "warning", "a.py:8")
    assert finding.evidence == ["those of 24 passes in a row"]
