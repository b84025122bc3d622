"""The progress bar: on a terminal, for work that takes a while, and gone when it is done."""

from __future__ import annotations

import io
import sys
import time

import pytest

from instrumentor.engine import progress
from instrumentor.engine.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Put a terminal in the place of standard error; not in a fixture, after which pytest puts its own there."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return found


def advance(bar: Progress, files: int) -> None:
    for number in range(files):
        bar.advance(changed=number % 2 == 0, failed=number % 5 == 0)


def test_work_that_takes_a_while_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setattr(progress, "_QUIET_S", 0.0)
    counted: list[int] = []

    def total() -> int:
        counted.append(1)
        return 40

    with Progress(total) as bar:
        advance(bar, 10)
    shown = terminal.getvalue()
    assert "10/40" in shown
    assert "5 with models, 2 failed" in shown
    assert counted == [1]
    assert shown.endswith("\x1b[1A\x1b[2K")  # the line is taken away


def test_a_single_file_shows_that_it_is_worked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setattr(progress, "_QUIET_S", 0.0)
    with Progress(lambda: 1, is_alone=True) as bar:
        deadline = time.monotonic() + 10
        while "looking for models" not in terminal.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        advance(bar, 1)
        assert terminal.getvalue().endswith("\x1b[1A\x1b[2K")  # what is said of the file stands alone
    assert "looking for models" in terminal.getvalue()


def test_a_single_file_that_is_quick_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with Progress(lambda: 1, is_alone=True) as bar:
        advance(bar, 1)
    assert terminal.getvalue() == ""


def test_quick_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    with Progress(lambda: 10) as bar:
        advance(bar, 10)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_is_shown_where_nobody_looks(enabled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setattr(progress, "_QUIET_S", 0.0)
    if enabled:
        monkeypatch.setattr(terminal, "isatty", lambda: False)
    with Progress(lambda: 10, enabled=enabled) as bar:
        advance(bar, 10)
    assert terminal.getvalue() == ""
