"""A progress bar for long reads."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONG_BYTES: Final = 50_000_000
"""Reads of at least this size get a progress bar."""


@contextmanager
def progress_bar(total_bytes: int, title: str) -> Iterator[Callable[[int], None] | None]:
    """Show a bar on standard error while the block runs, if that is a terminal and the read is long.

    Yields:
        A function to call with the number of bytes read so far; None if there is no bar.
    """
    if total_bytes < LONG_BYTES or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # Imported late, because it would dominate the time of short commands.
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=total_bytes)
        yield lambda done: progress.update(task, completed=done)
