"""A progress bar for long work: only on a terminal, and only after the first second."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_QUIET_S = 1.0


class Progress:
    """Counts files; a context manager that removes the bar at the end."""

    def __init__(self, total: Callable[[], int], *, enabled: bool = True, is_alone: bool = False) -> None:
        """Wait for work.

        Args:
            total: counts all files; called once, when the bar is first shown.
            enabled: whether a bar may be shown at all.
            is_alone: whether there is only one file. If so, a thread shows the bar while this one works. Otherwise
                there is no such thread, since processes may be forked.
        """
        self._total = total
        self._is_alone = is_alone
        self._showing = threading.Lock()
        self._timer: threading.Timer | None = None
        self._enabled = enabled and sys.stderr is not None and sys.stderr.isatty()
        self._started = time.monotonic()
        self._done = self._changed = self._failed = 0
        self._bar: tuple[Bar, TaskID] | None = None

    def __enter__(self) -> Progress:
        if self._enabled and self._is_alone:
            self._timer = threading.Timer(_QUIET_S, self._show_in_time)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def advance(self, *, changed: bool, failed: bool) -> None:
        """Count one more file."""
        self._done += 1
        self._changed += changed
        self._failed += failed
        if self._is_alone:
            self.close()
        if not self._enabled:
            return
        if self._bar is None:
            if time.monotonic() - self._started < _QUIET_S:
                return
            self._bar = self._show()
        bar, task = self._bar
        found = f"{self._changed:,} with models" + (f", {self._failed:,} failed" if self._failed else "")
        bar.update(task, completed=self._done, found=found)

    def close(self) -> None:
        """Remove the bar, so that it does not mix with later messages."""
        if self._timer is not None:
            self._timer.cancel()
        with self._showing:
            self._enabled = False
            if self._bar is not None:
                self._bar[0].stop()
                self._bar = None
        if self._timer is not None:
            self._timer.join()

    def _show_in_time(self) -> None:
        """Show the bar for the only file, unless it is done by now."""
        with self._showing:
            if self._enabled:
                self._bar = self._show()

    def _show(self) -> tuple[Bar, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            (BarColumn(), TextColumn("looking for models"), TimeElapsedColumn())
            if self._is_alone
            else (BarColumn(), MofNCompleteColumn(), TextColumn("files, {task.fields[found]}"), TimeRemainingColumn())
        )
        bar = Bar(*columns, console=Console(stderr=True), transient=True)
        bar.start()
        return bar, bar.add_task("", total=None if self._is_alone else self._total(), found="")
