"""The kinds of reports by file suffix, and the formats for standard output."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from instrumentor.errors import OutputExistsError, ReportError
from instrumentor.paths import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from instrumentor.paths.files import Output
    from instrumentor.report.record import FileRecord, Summary

    Records = Callable[[], Iterator[FileRecord]]


class Render(Protocol):
    """Writes all records as one report; reads them again for each pass, so that none need be kept."""

    def __call__(self, records: Records, summary: Summary, out: Output) -> None:
        """Write to `out`."""
        ...


# The module for each suffix; imported on demand, since the libraries for highlighting and layout load slowly.
KINDS = {".json": "json_report", ".sarif": "sarif", ".md": "markdown", ".html": "html_report"}
_FORMATS = {"json": "json_report", "github": "github"}
# Text near the beginning of each kind of report that hardly any other file with the suffix has.
_SIGNS = {
    ".json": b'"tool": {"name":"instrument"',
    ".sarif": b'"tool": {"driver":{"name":"instrument"',
    ".md": b"# Instrumented models\n",
    ".html": b'<meta name="generator" content="instrument ',
}
_BEGINNING = 1024


def kind_of(path: str) -> Render:
    """The kind of report for a file's suffix.

    Raises:
        ReportError: there is no such kind.
    """
    name = KINDS.get(Path(path).suffix.lower())
    if name is None:
        raise ReportError(
            f"is not a known kind of report; name it {', '.join('*' + each for each in KINDS)}", path=path
        )
    return _load(name)


def refuse_to_replace(paths: Sequence[str]) -> None:
    """Check before a run that reports would only replace earlier reports or empty files.

    Raises:
        OutputExistsError: a file exists that `--report` did not write.
        UnwritableOutputError: an existing file cannot be read.
    """
    for path in paths:
        sign = _SIGNS.get(Path(path).suffix.lower(), b"")
        existing = files.read_existing(Path(path))
        if existing and sign not in existing[:_BEGINNING]:
            raise OutputExistsError(
                "exists and is not a report; choose another --report, or overwrite it with --force", path=path
            )


def _load(name: str) -> Render:
    render: Render = import_module(f"instrumentor.report.{name}").render
    return render


def write_reports(records: Records, paths: Sequence[str], *, format_: str = "text", statistics_: bool = False) -> None:
    """Write the reports to files, and the requested output to standard output.

    Raises:
        ReportError: a file's suffix is not that of a report.
        UnwritableOutputError: a file cannot be written.
    """
    from instrumentor.report.record import summarize

    summary = summarize(records())
    for path in paths:
        render = kind_of(path)
        with files.open_whole(Path(path)) as out:
            render(records, summary, out)
    if statistics_ and format_ == "text":
        from instrumentor.report.statistics import render_statistics

        files.write_stdout(render_statistics(summary, sys.stdout))
    if format_ != "text":
        with files.open_stdout() as out:
            _load(_FORMATS[format_])(records, summary, out)
