"""The text log of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import AnyEvent
from proxy_wrapper.writing.text_form import TextForm
from tests.proxy_wrapper.programs import Branching, train

if TYPE_CHECKING:
    from pathlib import Path

    from proxy_wrapper.writing.observers.memory import MemoryObserver


def test_the_text_log_of_a_run_is_the_text_form_of_its_records(tmp_path: Path, seen: MemoryObserver) -> None:
    """What went through JSON and back is rendered as what went to the log."""
    log = tmp_path / "run.log"
    train(Proxy.Proxy(Branching(), recurse=True, name="net", logdir=log, log_level="DEBUG"))
    Proxy.flush()
    records = [msgspec.json.decode(msgspec.json.encode(event), type=AnyEvent) for event in seen.events]
    form = TextForm()
    lines = [line for record in records for line in form.lines(record)]
    text = log.read_text(encoding="utf-8").splitlines()
    assert len(lines) > 500
    assert text[len(text) - len(lines) :] == lines


def test_a_log_that_exists_is_continued(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text("kept\n")
    train(Proxy.Proxy(Branching(), recurse=True, logdir=log), steps=1)
    Proxy.flush()
    assert log.read_text().startswith("kept\n")
    assert len(log.read_text().splitlines()) > 20
