"""Sums up a run: what was called, what was updated, and what looks wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from proxy_trace.checks.all_checks import all_checks, run_checks
from proxy_trace.checks.check import CheckResult  # noqa: TC001  msgspec looks the types of fields up.
from proxy_trace.checks.choice import EVERYTHING
from proxy_trace.checks.evidence import Evidence
from proxy_trace.errors import NothingToCompareError
from proxy_trace.findings import Finding  # noqa: TC001
from proxy_trace.process_summary import PROGRESS_INTERVAL, ProcessCollector, ProcessSummary
from proxy_trace.ranks import compare_readers, file_of_each_rank
from proxy_trace.step_reader import StepReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from proxy_trace.checks.check import Check
    from proxy_trace.checks.choice import Choice
    from proxy_trace.ranks import Comparison
    from proxy_trace.selection import Period
    from proxy_trace.trace import Trace, TraceFile


class Summary(msgspec.Struct):
    """What a run's trace says: what looks wrong in it (`findings`), what was looked for (`checks`), and the sums.

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
    checks: list[CheckResult]
    findings: list[Finding]
    processes: list[ProcessSummary]


def summarize(
    trace: Trace,
    on_progress: Callable[[int], None] | None = None,
    period: Period | None = None,
    checks: Sequence[Check] | None = None,
    choice: Choice = EVERYTHING,
) -> Summary:
    """Read all of `trace` once and sum it up, in memory that grows with the model and not with the run.

    Args:
        trace: the run.
        period: sum up only what happened in it.
        on_progress: called now and then with the number of bytes read so far, over all files.
        checks: what to look for; everything that there is a check for by default.
        choice: which findings are told.

    Raises:
        TraceError: if the file system refuses.
    """
    reader = _RunReader(trace, period, on_progress)
    comparison = reader.read()
    collectors = reader.collectors
    processes = [collector.process for collector in collectors]
    run = trace.files[0].run
    evidence = Evidence(collectors, trace.damaged, run.world_size, comparison, reader.not_compared)
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
    )


class _RunReader:
    """Takes all events of a run to the collectors of their processes, once.

    Attributes:
        collectors: one for each file, in their order.
        not_compared: why the ranks were not compared, if there are several.
    """

    def __init__(self, trace: Trace, period: Period | None, on_progress: Callable[[int], None] | None) -> None:
        self.collectors: list[ProcessCollector] = []
        self.not_compared = ""
        self._trace = trace
        self._period = period
        self._on_progress = on_progress
        self._bytes_done = 0

    def read(self) -> Comparison | None:
        """Read everything; what comparing the ranks found, if there are several that can be."""
        of_ranks, others = file_of_each_rank(self._trace)
        comparison = None
        if len(of_ranks) > 1 and not (self._period is not None and self._period.stages):
            comparison = self._read_together(of_ranks, others)
        else:
            others = self._trace.files
            self.not_compared = "of a stage alone" if len(of_ranks) > 1 else ""
        for file in others:
            self._read_alone(file)
        for collector in self.collectors:
            collector.finish()
        order = {str(file.path): place for place, file in enumerate(self._trace.files)}
        self.collectors.sort(key=lambda collector: order[collector.process.file])
        return comparison

    def _read_together(self, files: list[TraceFile], left_out: list[TraceFile]) -> Comparison | None:
        """Take the ranks through their steps side by side, as comparing them needs."""
        readers = [StepReader(file, file.run.rank) for file in files]
        for reader in readers:
            collector = ProcessCollector(reader.file, reader.reading, self._period)
            reader.on_event = collector.take
            self.collectors.append(collector)
        steps = self._period.steps if self._period is not None else None
        try:
            return compare_readers(
                self._trace, readers, left_out, steps, on_progress=self._on_progress, with_gradients=False
            )
        except NothingToCompareError:
            self.not_compared = "they have no parameter in common"
            return None
        finally:
            self._bytes_done += sum(reader.bytes_read for reader in readers)

    def _read_alone(self, file: TraceFile) -> None:
        reading = file.read()
        collector = ProcessCollector(file, reading, self._period)
        self.collectors.append(collector)
        for count, event in enumerate(reading, 1):
            collector.take(event)
            if not count % PROGRESS_INTERVAL and self._on_progress is not None:
                self._on_progress(self._bytes_done + reading.bytes_read)
        self._bytes_done += reading.bytes_read


def _all(texts: Iterable[str]) -> str:
    """The different texts among `texts`, in order."""
    return ", ".join(dict.fromkeys(texts))
