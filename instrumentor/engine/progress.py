"""A progress bar for work that takes a while: on a terminal only, and only from its second second on."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.progress import Progress as Bar
    from rich.progress import TaskID

_QUIET_S = 1.0


class Progress:
    """Counts files; a context manager, which takes the bar away at the end."""

    def __init__(self, total: Callable[[], int], *, enabled: bool = True) -> None:
        """Wait for work.

        Args:
            total: counts all files; called once, when the bar is first shown.
            enabled: whether a bar is wanted at all.
        """
        self._total = total
        self._enabled = enabled and sys.stderr is not None and sys.stderr.isatty()
        self._started = time.monotonic()
        self._done = self._changed = self._failed = 0
        self._bar: tuple[Bar, TaskID] | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def advance(self, *, changed: bool, failed: bool) -> None:
        """Count one more file."""
        self._done += 1
        self._changed += changed
        self._failed += failed
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
        """Take the bar away, so that what is said next stands alone."""
        if self._bar is not None:
            self._bar[0].stop()
            self._bar = None
        self._enabled = False

    def _show(self) -> tuple[Bar, TaskID]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("files, {task.fields[found]}"),
            TimeRemainingColumn(),
        )
        bar = Bar(*columns, console=Console(stderr=True), transient=True)
        bar.start()
        return bar, bar.add_task("", total=self._total(), found="")
