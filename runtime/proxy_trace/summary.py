"""Sums up a run: what was called, what was updated, and what looks wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from proxy_trace.findings import Finding, collect_findings
from proxy_trace.process_summary import ProcessCollector, ProcessSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from proxy_trace.selection import Period
    from proxy_trace.trace import Trace


class Summary(msgspec.Struct):
    """What a run's trace says, with what looks wrong in it (`findings`) first.

    `python`, `torch` and `version` are those of the processes, with commas between if they differ.
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
    findings: list[Finding]
    processes: list[ProcessSummary]


def summarize(trace: Trace, on_progress: Callable[[int], None] | None = None, period: Period | None = None) -> Summary:
    """Read all of `trace` once and sum it up, in memory that grows with the model and not with the run.

    Args:
        trace: the run.
        period: sum up only what happened in it.
        on_progress: called now and then with the number of bytes read so far, over all files.

    Raises:
        TraceError: if the file system refuses.
    """
    collectors: list[ProcessCollector] = []
    bytes_done = 0
    for file in trace.files:
        collector = ProcessCollector(file)
        reading = file.read()
        collector.collect(reading, on_progress, bytes_done, period)
        bytes_done += reading.bytes_read
        collectors.append(collector)
    processes = [collector.process for collector in collectors]
    run = trace.files[0].run
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
        findings=collect_findings(collectors, trace.damaged),
        processes=processes,
    )


def _all(texts: Iterable[str]) -> str:
    """The different texts among `texts`, in order."""
    return ", ".join(dict.fromkeys(texts))
