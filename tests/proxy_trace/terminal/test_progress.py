from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from proxy_trace.terminal.progress import LONG_BYTES, progress_bar

if TYPE_CHECKING:
    import pytest


def test_a_pipe_sees_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar(LONG_BYTES, "reading") as on_progress:
        assert on_progress is None
    assert capsys.readouterr() == ("", "")


def test_a_terminal_sees_a_bar_for_a_long_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar(LONG_BYTES - 1, "reading") as on_progress:
        assert on_progress is None
    with progress_bar(LONG_BYTES, "reading") as on_progress:
        assert on_progress is not None
        on_progress(LONG_BYTES // 2)
