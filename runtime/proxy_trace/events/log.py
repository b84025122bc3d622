"""A run as a text log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_trace.errors import UnreadableFileError
from proxy_trace.reading.bounded_lines import BoundedLines, open_regular
from proxy_trace.reading.names import Names
from proxy_wrapper.writing.text_form import TextForm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proxy_trace.reading.selection import Selection
    from proxy_trace.reading.trace import Trace


def log_lines(trace: Trace, selection: Selection | None = None) -> Iterator[str]:
    """The lines of all processes, one process after another; if there are several, each has a heading.

    Args:
        trace: the run.
        selection: only the lines of these records; they read the same as in the whole log.

    Raises:
        TraceError: if the file system refuses.
    """
    for file in trace.files:
        heading = [f"==> rank {file.run.rank}, process {file.run.pid} <=="] if len(trace.files) > 1 else []
        form = TextForm()
        names = file.names() if selection is not None else Names()
        for event in file.read():
            lines = form.lines(event)
            if lines and (selection is None or selection.has(event, names)):
                yield from heading
                yield from lines
                heading = []


def text_log_lines(path: Path) -> Iterator[str]:
    """The lines of a trace that already is a text log.

    Raises:
        UnreadableFileError: if the file system refuses.
    """
    try:
        with open_regular(path) as file:
            for line in BoundedLines(file):
                yield line.decode("utf-8", "replace").rstrip("\r")
    except OSError as error:
        raise UnreadableFileError(path, error) from error
