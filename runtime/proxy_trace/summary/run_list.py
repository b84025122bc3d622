"""Lists the runs of a logdir with their findings, newest first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from proxy_trace.checks.all_checks import all_checks
from proxy_trace.checks.finding import NOTE
from proxy_trace.errors import NoTraceError, TraceError, TraceNotFoundError, UnreadableFileError
from proxy_trace.reading.find_run import find_runs
from proxy_trace.reading.trace import Trace
from proxy_trace.reading.workers import Workers
from proxy_trace.summary.run_summary import summarize

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from proxy_trace.checks.choice import Choice
    from proxy_trace.reading.report import Report


class ListedRun(msgspec.Struct):
    """A short description of a run.

    Attributes:
        path: its folder.
        run: its id; the name of the folder if it cannot be read.
        script: the script.
        argv: its arguments.
        started: when its first process started (UTC, ISO 8601).
        size_bytes: the size of its files.
        processes: the number of processes.
        steps: the optimizer steps recorded; None if the run was not read.
        duration_us: the recorded duration; None if the run was not read.
        findings: the number of findings by severity; None if the run was not read.
        gravest: the codes of the most severe findings, in the order of `summary`; no notes.
        problem: why it could not be read; "" if it was.
    """

    path: str
    run: str
    script: str = ""
    argv: list[str] = []
    started: str = ""
    size_bytes: int = 0
    processes: int = 0
    steps: int | None = None
    duration_us: int | None = None
    findings: dict[str, int] | None = None
    gravest: list[str] = []
    problem: str = ""


def newest_runs(logdir: Path) -> list[Path]:
    """The folders of runs, newest first, by name.

    Args:
        logdir: the folder that contains them, or the folder of one run.

    Raises:
        TraceNotFoundError: if the folder does not exist.
        NoTraceError: if it contains no run.
        UnreadableFileError: if it cannot be read.
    """
    try:
        if not logdir.exists():
            raise TraceNotFoundError(logdir)
        runs = find_runs(logdir)
    except OSError as error:
        raise UnreadableFileError(logdir, error) from error
    if not runs:
        raise NoTraceError(logdir)
    return runs


def list_runs(
    runs: Sequence[Path], choice: Choice, workers: Workers | None = None, *, with_findings: bool = True
) -> list[ListedRun]:
    """Describe each run.

    Args:
        runs: their folders.
        choice: which findings count.
        workers: reads several runs at a time; if None, this process reads them.
        with_findings: whether to read runs completely; else only the first line of each file is read.
    """
    if not with_findings:
        return [_begin(run)[0] for run in runs]
    tasks = [_Task(run, choice) for run in runs]
    return list((workers or Workers()).map(_read_run, tasks))


class _Task(NamedTuple):
    run: Path
    choice: Choice


def _begin(run: Path) -> tuple[ListedRun, Trace | None]:
    """The description based on the first lines of the files."""
    listed = ListedRun(str(run), run.name)
    try:
        trace = Trace.open(run)
        header = trace.files[0].run
        listed.size_bytes = sum(file.size_bytes() for file in trace.files)
    except TraceError as error:
        listed.problem = str(error)
        return listed, None
    listed.run, listed.script, listed.argv = header.run, header.script, header.argv
    listed.started = min(file.run.started for file in trace.files)
    listed.processes = len(trace.files)
    return listed, trace


def _read_run(task: _Task, report: Report) -> ListedRun:
    listed, trace = _begin(task.run)
    if trace is None:
        return listed
    try:
        summary = summarize(trace, Workers(report=report), None, all_checks(), task.choice)
    except TraceError as error:
        listed.problem = str(error)
        return listed
    listed.steps, listed.duration_us = summary.steps, summary.duration_us
    listed.findings = dict(Counter(finding.severity for finding in summary.findings))
    told = [finding for finding in summary.findings if finding.severity != NOTE]
    listed.gravest = list(dict.fromkeys(each.code for each in told if each.severity == told[0].severity))
    return listed
