"""Gradients that those of another loss replace are told where they are assigned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_trace.checks import overwritten_gradients
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACES = (events.Location(3, "train.py", 20, "main"), events.Location(4, "train.py", 10, "main"))


def test_an_overwritten_gradient(tmp_path: Path, write_trace: WriteTrace) -> None:
    record = events.SourcePattern(1, what="gradient-overwritten", names=["p.grad"], made=3, other=4)
    (finding,) = find(write_trace(tmp_path / "a.jsonl", *PLACES, NET, record), overwritten_gradients.CHECK)
    assert (finding.code, finding.name, finding.place) == ("grad-overwritten", "p.grad", "train.py:20")
    assert finding.reason == "each pass of the loop at train.py:10 replaces it"


def test_other_patterns_are_of_other_checks(tmp_path: Path, write_trace: WriteTrace) -> None:
    record = events.SourcePattern(1, what="shuffled-apart", names=["x", "y"], made=3, other=4)
    path = write_trace(tmp_path / "a.jsonl", *PLACES, NET, record)
    assert find(path, overwritten_gradients.CHECK) == []
