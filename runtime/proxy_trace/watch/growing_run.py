"""Reads a run in progress. Each record is read once."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_trace.checks.all_checks import all_checks, run_checks
from proxy_trace.checks.evidence import Evidence
from proxy_trace.checks.files import INCOMPLETE
from proxy_trace.process.process_collector import ProcessCollector
from proxy_trace.reading.trace import Trace
from proxy_wrapper import events

if TYPE_CHECKING:
    from pathlib import Path

    from proxy_trace.checks.choice import Choice
    from proxy_trace.checks.finding import Finding
    from proxy_trace.process.process_summary import ProcessEvidence
    from proxy_trace.reading.trace import TraceFile

_RECENT: Final = 60
"""The number of values of a loss that are shown."""

_MOST_LINES: Final = 6
_SILENT_S: Final = 20.0
"""After this time without writes, check whether the process still exists. A killed process does not record its end."""


class Numbers(NamedTuple):
    """The latest numbers of a process.

    Attributes:
        step: the number of completed steps.
        losses: the last values of each loss, by the place of the backward pass, oldest first.
        rates: the learning rates of each optimizer.
    """

    step: int
    losses: dict[str, deque[float]]
    rates: dict[str, list[float]]


class Snapshot(NamedTuple):
    """The state of a run so far.

    Attributes:
        run: its header.
        processes: the number of processes that have written.
        duration_us: how long it has been running.
        numbers: of the process with the most steps.
        findings: what looks wrong so far.
        end: how it ended; "" if it is still running.
    """

    run: events.Run
    processes: int
    duration_us: int
    numbers: Numbers
    findings: list[Finding]
    end: str


class GrowingRun:
    """Reads the files of a run while they are written."""

    def __init__(self, path: Path, choice: Choice) -> None:
        """Follow the run at `path`; the newest one if it is a logdir. Only findings in `choice` are reported.

        Raises:
            TraceError: if there is no trace.
        """
        self._folder = Trace.open(path).files[0].path.parent if path.is_dir() else path
        self._choice = choice
        self._checks = all_checks()
        self._files: dict[Path, _GrowingFile] = {}

    def read_on(self) -> Snapshot:
        """Read what has been written since the last call.

        Raises:
            TraceError: if a file cannot be read.
        """
        trace = Trace.open(self._folder)
        for file in trace.files:
            if file.path not in self._files:
                self._files[file.path] = _GrowingFile(file)
        files = list(self._files.values())
        for each in files:
            each.read_on()
        evidence = Evidence([each.evidence() for each in files], (), files[0].file.run.world_size)
        evidence.not_compared = "while the run goes on"
        findings, _ = run_checks(evidence, self._checks, self._choice)
        has_ended = all(each.has_ended for each in files)
        leading = max(files, key=lambda each: (each.numbers.step, -each.file.run.rank))
        return Snapshot(
            files[0].file.run,
            len(files),
            max(process.duration_us for process in evidence.processes),
            leading.numbers,
            # A file that is still being written has no end yet.
            [each for each in findings if each.code != INCOMPLETE.code],
            leading.end if has_ended else "",
        )


class _GrowingFile:
    """The file of one process."""

    def __init__(self, file: TraceFile) -> None:
        self.file = file
        self.numbers = Numbers(0, {}, {})
        self.end = ""
        self._reading = file.read()
        self._collector = ProcessCollector(file, self._reading)
        self._rates: dict[int, dict[int, float]] = {}
        self._last_read = time.monotonic()

    @property
    def has_ended(self) -> bool:
        return bool(self.end)

    def read_on(self) -> None:
        """Process the new records."""
        is_silent = True
        for event in self._reading.written_since():
            is_silent = False
            self._collector.take(event)
            self._take(event)
        now = time.monotonic()
        if not is_silent:
            self._last_read = now
        elif not self.end and now - self._last_read > _SILENT_S and not _is_running(self.file.run.pid):
            self.end = "killed"

    def evidence(self) -> ProcessEvidence:
        """The evidence for the checks."""
        return self._collector.finish()

    def _take(self, event: events.AnyEvent) -> None:
        if isinstance(event, events.Backward):
            if event.loss_value is not None:
                place = self._reading.names.place(event.location) or "loss"
                losses = self.numbers.losses
                if place in losses or len(losses) < _MOST_LINES:
                    losses.setdefault(place, deque(maxlen=_RECENT)).append(float(event.loss_value))
        elif isinstance(event, events.Optimizer):
            self._note_rates(event)
        elif isinstance(event, events.OptimizerStepEnd):
            self.numbers = self.numbers._replace(step=max(self.numbers.step, event.step + 1))
        elif isinstance(event, events.RunEnd):
            self.end = f"{event.reason} {event.error}".rstrip()

    def _note_rates(self, event: events.Optimizer) -> None:
        if event.id not in self._rates and len(self._rates) >= _MOST_LINES:
            return
        rates = self._rates.setdefault(event.id, {})
        for index, group in zip(event.indices, event.groups, strict=False):
            rate = group.settings.get("lr")
            if isinstance(rate, (int, float)) and not isinstance(rate, bool) and (index in rates or len(rates) < 64):
                rates[index] = float(rate)
        name = event.optimizer if len(self._rates) == 1 else f"{event.optimizer} {event.id}"
        self.numbers.rates[name] = [rates[index] for index in sorted(rates)]


def _is_running(pid: int) -> bool:
    """Whether a process with this number exists on this machine. True if unknown."""
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
