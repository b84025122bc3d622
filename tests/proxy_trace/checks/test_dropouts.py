"""Dropout in evaluation is told where it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_trace.reading.trace import Trace
from proxy_trace.summary.run_summary import summarize
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")


def test_active_dropout_is_an_error_at_its_place(tmp_path: Path, write_trace: WriteTrace) -> None:
    record = events.ActiveDropout(2, module=1, location=3, function="dropout")
    (found,) = find(write_trace(tmp_path / "a.jsonl", PLACE, NET, events.CallModule(1, module=1), record))
    assert (found.code, found.severity, found.name, found.place) == (
        "dropout-always-on",
        "error",
        "model",
        "train.py:20",
    )


def test_a_run_that_never_evaluates_has_nothing_to_do_with_it(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, events.CallModule(1, module=1, training=True))
    assert "dropout" not in [result.name for result in summarize(Trace.open(path)).checks]
