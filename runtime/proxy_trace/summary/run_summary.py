"""Summarizes a run: what was called, what was updated, and what looks wrong."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from proxy_trace.checks.all_checks import all_checks, run_checks
from proxy_trace.checks.check import CheckResult  # noqa: TC001  msgspec looks the types of fields up.
from proxy_trace.checks.choice import EVERYTHING
from proxy_trace.checks.evidence import Evidence
from proxy_trace.checks.finding import Finding  # noqa: TC001
from proxy_trace.comparison.against.compare_with_good_run import GoodRunComparison, compare_with_good_run
from proxy_trace.comparison.ranks import compare_ranks
from proxy_trace.errors import NothingToCompareError
from proxy_trace.process.process_collector import ProcessCollector
from proxy_trace.reading.workers import Workers
from proxy_trace.summary.state_digest import StateDigest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from proxy_trace.checks.check import Check
    from proxy_trace.checks.choice import Choice
    from proxy_trace.comparison.ranks import Comparison
    from proxy_trace.process.process_summary import ProcessEvidence, ProcessSummary
    from proxy_trace.reading.report import Report
    from proxy_trace.reading.selection import Period
    from proxy_trace.reading.trace import Trace, TraceFile

REPORT_INTERVAL: Final = 1 << 14
"""The number of events between two reports of progress."""


class Summary(msgspec.Struct):
    """The summary of a run: what looks wrong (`findings`), what was looked for (`checks`), and statistics.

    `python`, `torch` and `version` are those of the processes, separated by commas if they differ. `against` is the
    comparison with a good run, if requested.
    """

    path: str
    run: str
    script: str
    argv: list[str]
    started: str
    python: str
    torch: str
    version: str
    world_size: int
    ranks: list[int]
    events: int
    steps: int
    duration_us: int
    period: str
    checks: list[CheckResult]
    findings: list[Finding]
    processes: list[ProcessSummary]
    against: GoodRunComparison | None = None


def summarize(
    trace: Trace,
    workers: Workers | None = None,
    period: Period | None = None,
    checks: Sequence[Check] | None = None,
    choice: Choice = EVERYTHING,
    good: Trace | None = None,
) -> Summary:
    """Read `trace` and summarize it. Memory grows with the model, not with the length of the run.

    Args:
        trace: the run.
        workers: reads the files; if None, this process does.
        period: only this period; None for all.
        checks: the checks to run; all by default.
        choice: the findings to report.
        good: a good run of the same script to compare with; None for no comparison.

    Raises:
        TraceError: if a file cannot be read, or the good run is this run, or unrelated.
    """
    workers = workers or Workers()
    has_ranks = len(trace.ranks()) > 1
    summed = list(workers.map(_sum_up, [_Task(file, period, has_ranks) for file in trace.files]))
    of_processes = [each.evidence for each in summed]
    processes = [each.process for each in of_processes]
    digests = {each.evidence.process.file: each.digest for each in summed}
    comparison, not_compared = _compare(trace, workers, period, digests) if has_ranks else (None, "")
    run = trace.files[0].run
    against = compare_with_good_run(trace, good, workers, period) if good is not None else None
    evidence = Evidence(of_processes, trace.damaged, run.world_size, comparison, not_compared, against)
    findings, results = run_checks(evidence, all_checks() if checks is None else checks, choice)
    return Summary(
        path=str(trace.path),
        run=run.run,
        script=run.script,
        argv=run.argv,
        started=min(file.run.started for file in trace.files),
        python=_all(file.run.python for file in trace.files),
        torch=_all(file.run.torch for file in trace.files),
        version=_all(file.run.version for file in trace.files),
        world_size=run.world_size,
        ranks=trace.ranks(),
        events=sum(process.events for process in processes),
        steps=max(process.steps for process in processes),
        duration_us=max(process.duration_us for process in processes),
        period=str(period or ""),
        checks=results,
        findings=findings,
        processes=processes,
        against=against,
    )


class _Task(NamedTuple):
    """A file, what of it to summarize, and whether it will be compared with others."""

    file: TraceFile
    period: Period | None
    is_compared: bool


class _Summed(NamedTuple):
    """The summary of a file; `digest` is its `StateDigest`, if wanted."""

    evidence: ProcessEvidence
    digest: bytes


def _sum_up(task: _Task, report: Report) -> _Summed:
    reading = task.file.read()
    collector = ProcessCollector(task.file, reading, task.period)
    digest = StateDigest()
    noted = digest.kinds if task.is_compared else frozenset()
    reported = 0
    for count, event in enumerate(reading, 1):
        collector.take(event)
        if type(event) in noted:
            digest.note(event)
        if not count % REPORT_INTERVAL:
            report(reading.bytes_read - reported)
            reported = reading.bytes_read
    report(reading.bytes_read - reported)
    # Where definitions are left out, those are not told which another reader would leave out.
    is_known = not reading.surplus
    return _Summed(collector.finish(), digest.digest() if is_known else os.fsencode(task.file.path))


def _compare(
    trace: Trace, workers: Workers, period: Period | None, digests: Mapping[str, bytes]
) -> tuple[Comparison | None, str]:
    """The comparison of ranks; or None, and why they were not compared.

    For this, the events that change parameters and buffers are read again, once for ranks with equal digests. Comparing
    all ranks during the first pass would take memory for each.
    """
    if period is not None and period.stages:
        return None, "restricted to a stage"
    steps = period.steps if period is not None else None
    try:
        return compare_ranks(trace, steps, workers=workers, with_gradients=False, digests=digests), ""
    except NothingToCompareError:
        return None, "they have no parameter in common"


def _all(texts: Iterable[str]) -> str:
    """The distinct texts, in order."""
    return ", ".join(dict.fromkeys(texts))
