from __future__ import annotations

from collections import deque

import pytest

from proxy_trace.checks.finding import ERROR, NOTE, Finding
from proxy_trace.terminal.colour import Palette
from proxy_trace.watch.growing_run import Numbers, Snapshot
from proxy_trace.watch.watch_text import end_line, new_findings, progress_line, screen_lines
from tests.proxy_trace.conftest import make_run

PLAIN = Palette(enabled=False)
FINDING = Finding("non-finite", ERROR, "model.fc", "2 elements", [0], step=7, place="train.py:3")


def snapshot(end: str = "", *findings: Finding) -> Snapshot:
    numbers = Numbers(1200, {"train.py:5": deque([3.0, 1.0, 2.0, float("nan")])}, {"AdamW": [0.001, 0.001, 0.01]})
    return Snapshot(make_run(), 2, 61_000_000, numbers, list(findings), end)


def test_the_screen_says_all() -> None:
    assert list(screen_lines(snapshot("", FINDING), PLAIN)) == [
        "train.py --epochs 1",
        "  run   20261121T080911-3f2a9c, 1 min 1 s, 2 processes",
        "  step  1,200",
        "  loss  nan  █▁▅x  train.py:5",
        "  rate  0.001, 0.01  AdamW",
        "",
        "error[non-finite] model.fc: 2 elements, at step 7, train.py:3",
    ]
    assert "Nothing looks wrong so far." in list(screen_lines(snapshot(), PLAIN))


def test_a_line_says_how_far_it_has_come() -> None:
    words = "1 min 1 s: 1,200 steps, loss nan (train.py:5), rate 0.001, 0.01 (AdamW)"
    assert progress_line(snapshot()) == words


def test_what_is_new_is_told_once_and_notes_are_not() -> None:
    note = Finding("frozen", NOTE, "model.fc", "frozen", [0])
    assert new_findings([], [FINDING, note]) == [FINDING]
    assert new_findings([FINDING], [FINDING, note]) == []


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("exit", "The run has ended."),
        ("exception ValueError", "The run has ended by ValueError."),
        ("killed", "The process is gone, and did not say that it ended: it was killed."),
        ("failed", "The run has ended: failed."),
    ],
)
def test_how_it_ended(end: str, words: str) -> None:
    assert end_line(snapshot(end)) == words
