"""The kinds of reports, by the suffix of their file, and what standard output gets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from instrumentor import files
from instrumentor.errors import ReportError
from instrumentor.report import github, html_report, json_report, markdown, sarif, statistics
from instrumentor.report.record import summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from instrumentor.report.record import FileRecord, Summary

    Records = Callable[[], Iterator[FileRecord]]


class Render(Protocol):
    """Writes all records as one report; asks for them anew for each pass, so that none need be kept."""

    def __call__(self, records: Records, summary: Summary, out: IO[bytes]) -> None:
        """Write to `out`."""
        ...


KINDS: dict[str, Render] = {
    ".json": json_report.render,
    ".sarif": sarif.render,
    ".md": markdown.render,
    ".html": html_report.render,
}


def kind_of(path: str) -> Render:
    """The kind of report that a file's suffix asks for.

    Raises:
        ReportError: there is no such kind.
    """
    render = KINDS.get(Path(path).suffix.lower())
    if render is None:
        raise ReportError(
            f"is of no kind of report that there is; name it {', '.join('*' + each for each in KINDS)}", path=path
        )
    return render


def write_reports(records: Records, paths: Sequence[str], *, format_: str = "text", statistics_: bool = False) -> None:
    """Write the reports to files, and what is asked for to standard output.

    Raises:
        ReportError: a file's name does not say its kind.
        UnwritableOutputError: a file cannot be written.
    """
    summary = summarize(records())
    for path in paths:
        render = kind_of(path)
        with files.open_whole(Path(path)) as out:
            render(records, summary, out)
    if statistics_ and format_ == "text":
        files.write_stdout(statistics.render_statistics(summary, sys.stdout))
    if format_ == "json":
        json_report.render(records, summary, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    elif format_ == "github":
        github.render(records, summary, sys.stdout.buffer)
        sys.stdout.buffer.flush()
