"""Weights that are kept when they are worse are told at the comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_trace.checks import selection
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


def test_weights_that_are_kept_when_the_loss_is_higher(tmp_path: Path, write_trace: WriteTrace) -> None:
    place = events.Location(3, "train.py", 21, "train")
    record = events.SourcePattern(1, what="worst-kept", names=["val_loss", "best_loss"], made=3)
    (finding,) = find(write_trace(tmp_path / "a.jsonl", place, NET, record), selection.CHECK)
    assert (finding.code, finding.name, finding.place) == ("worst-weights-kept", "best_loss", "train.py:21")
    assert finding.reason == "it becomes val_loss when that is worse"
