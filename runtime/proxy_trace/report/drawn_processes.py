"""Selects the processes drawn on a page, and reads their curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_trace.report.page import DrawnProcess
from proxy_trace.report.process_curves import CurvesTask, read_curves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_trace.process.process_summary import ProcessSummary
    from proxy_trace.reading.selection import GlobMatcher, StepRange
    from proxy_trace.reading.trace import Trace, TraceFile
    from proxy_trace.reading.workers import Workers
    from proxy_trace.summary.run_summary import Summary

_MOST: Final = 8
"""The number of processes that can be told apart in a plot."""

_MOST_POINTS: Final = 700_000
"""The number of points of all curves together. They take 4 MB of a page."""


class DrawnRun(NamedTuple):
    """A run, its summary, and a prefix for the names of its processes; "" for the only run."""

    trace: Trace
    summary: Summary
    label: str = ""


def draw_processes(
    runs: Sequence[DrawnRun], workers: Workers, steps: StepRange | None = None, is_chosen: GlobMatcher | None = None
) -> tuple[list[DrawnProcess], int]:
    """The processes of the runs that are drawn, in order, and the number of others.

    Args:
        runs: one run, or two that are overlaid.
        workers: reads the files.
        steps: only these steps; None for all.
        is_chosen: only parameters and buffers with these names; None for all.
    """
    chosen: list[tuple[str, TraceFile, ProcessSummary]] = []
    left_out = 0
    for run in runs:
        telling = [pair for pair in zip(run.trace.files, run.summary.processes, strict=True) if _tells(pair[1])]
        telling = telling or list(zip(run.trace.files, run.summary.processes, strict=True))[:1]
        shown = telling[: _MOST // len(runs)]
        left_out += len(telling) - len(shown)
        chosen += [(_label(run, process, telling), file, process) for file, process in shown]
    most_points = _MOST_POINTS // len(chosen)
    step = None if steps is None else steps.first
    tasks = [CurvesTask(file, most_points, steps, is_chosen, step) for _, file, _ in chosen]
    curves = workers.map(read_curves, tasks)
    drawn = [
        DrawnProcess(label, process, of_process) for (label, _, process), of_process in zip(chosen, curves, strict=True)
    ]
    return drawn, left_out


def _tells(process: ProcessSummary) -> bool:
    """Whether a process has anything to draw. A data loading worker has nothing."""
    return bool(process.steps or process.module_calls or process.backward_passes)


def _label(run: DrawnRun, process: ProcessSummary, telling: Sequence[tuple[TraceFile, ProcessSummary]]) -> str:
    words = [run.label] if run.label else []
    if len(telling) > 1:
        of_rank = sum(other.rank == process.rank for _, other in telling)
        words.append(f"rank {process.rank}" if of_rank == 1 else f"rank {process.rank}, process {process.pid}")
    return " ".join(words) or f"rank {process.rank}"
