"""A run as Chrome trace JSON, which opens in Perfetto (https://ui.perfetto.dev) and chrome://tracing.

Each process of the run is a process there, each thread a track of nested spans: calls of modules, backward passes,
steps of optimizers, and calls of torch functions as instants. A further track has the training steps end to end.
Counters hold the norm of all gradients and how many non-finite values there are, at each step. The format is that of
"Trace Event Format" by the Chromium project: phases B and E begin and end a span, X is a whole one, i an instant, C a
counter, M a name; times are in microseconds.
"""

from __future__ import annotations

import gzip
import math
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from proxy_trace.export.output import whole_or_nothing
from proxy_trace.export.result import ExportCounter, Exported
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from proxy_trace.reading.names import Names
    from proxy_trace.reading.report import Report
    from proxy_trace.reading.trace import Trace
    from proxy_wrapper.events import AnyEvent

_BATCH: Final = 1 << 13
_MAIN_TRACK: Final = 1
_SETTINGS: Final = (events.Configuration, events.Loss, events.Optimizer)
_OPEN_SPANS: Final = 256
"""How many spans lie in one another at most, and in how many threads: beyond that the oldest count as ended."""

_STEPS_TRACK: Final = 1 << 30
"""Tracks are numbered as threads are; the training steps have a number that no operating system gives."""


def export_chrome(trace: Trace, target: Path, *, force: bool = False, report: Report | None = None) -> Exported:
    """Write `trace` to the file `target`, compressed if its name ends in `.gz`. Memory does not grow with its size.

    Args:
        trace: the run.
        target: the file.
        force: replace it, if there is one.
        report: called now and then with the number of bytes read since the last time.

    Raises:
        OutputExistsError: if there is such a file, unless `force`.
        OutputIsFolderError: if there is a folder.
        UnwritableFileError: if the file system refuses to write.
        UnreadableFileError: if it refuses to read.
    """
    counter = ExportCounter(report)
    first_us = min(file.started_us() for file in trace.files)
    run = trace.files[0].run
    about = {"run": run.run, "script": run.script, "started": run.started, "torch": run.torch, "python": run.python}
    encode = msgspec.json.Encoder().encode
    with whole_or_nothing(target, force=force) as aside:
        with _open(aside, compressed=target.suffix == ".gz") as stream:
            stream.write(b'{"displayTimeUnit":"ms","otherData":' + encode(about) + b',"traceEvents":[')
            separator = b"\n"
            for number, file in enumerate(trace.files, 1):
                timeline = Timeline(number, file.names(), file.started_us() - first_us)
                for batch in counter.batches(file, _BATCH):
                    for event in batch:
                        for span in timeline.spans(event):
                            stream.write(separator + encode(span))
                            separator = b",\n"
                for span in timeline.ends():
                    stream.write(separator + encode(span))
            stream.write(b"\n]}\n")
        size_bytes = aside.stat().st_size
    return counter.exported(target, size_bytes)


def _open(path: Path, *, compressed: bool) -> IO[bytes]:
    # The clock is left out of the compressed file: the same trace gives the same bytes.
    return gzip.GzipFile(path, "wb", mtime=0) if compressed else path.open("wb")  # type: ignore[return-value]


class Timeline:
    """Turns the records of one process into spans, instants and counters."""

    def __init__(self, process: int, names: Names, offset_us: int) -> None:
        """Begin.

        Args:
            process: its number in the timeline; process ids may be the same on several machines.
            names: what the ids in it stand for.
            offset_us: is added to all times.
        """
        self._process = process
        self._names = names
        self._offset_us = offset_us
        self._latest_us = 0
        self._open: dict[int, list[str]] = {}
        self._step_began_us = 0
        self._square_sum = 0.0
        self._nonfinite = 0
        self._has_gradients = False

    def spans(self, event: AnyEvent) -> Iterator[dict[str, Any]]:
        """What `event` adds to the timeline."""
        if isinstance(event, events.Run):
            yield self._name("process_name", 0, f"rank {event.rank} (pid {event.pid})")
            yield {"ph": "M", "name": "process_sort_index", "pid": self._process, "args": {"sort_index": event.rank}}
            yield self._name("thread_name", _STEPS_TRACK, "steps")
        if not isinstance(event, events.Happening):
            return
        self._latest_us = max(self._latest_us, event.time_us)
        if event.thread not in self._open:
            if len(self._open) >= _OPEN_SPANS:
                oldest = next((each for each, stack in self._open.items() if not stack), next(iter(self._open)))
                for _ in self._open.pop(oldest):
                    yield self._span("E", self._track(oldest), event.time_us)
            self._open[event.thread] = []
            name = f"thread {event.thread}" if event.thread else "main thread"
            yield self._name("thread_name", self._track(event.thread), name)
        if isinstance(event, events.CallModule):
            yield from self._begin(event, self._names.module_name(event.module), "module", inputs=event.inputs)
        elif isinstance(event, events.ReturnModule):
            yield from self._end(event, self._names.module_name(event.module), outputs=event.outputs)
        elif isinstance(event, events.Backward):
            yield from self._backward(event)
        elif isinstance(event, events.BackwardEnd):
            yield from self._end(event, "backward")
        elif isinstance(event, events.OptimizerStep):
            name = f"{event.optimizer}.step"
            yield from self._end(event, name)  # One that raised has not said that it ended.
            yield from self._begin(event, name, "optimizer", tensors=event.tensors)
        elif isinstance(event, events.OptimizerStepEnd):
            yield from self._end(event, f"{event.optimizer}.step")
            yield from self._step(event)
        else:
            yield from self._instants(event)

    def ends(self) -> Iterator[dict[str, Any]]:
        """Ends of the spans that the trace leaves open, at its last time."""
        for thread, stack in self._open.items():
            while stack:
                stack.pop()
                yield self._span("E", self._track(thread), self._latest_us)

    def _begin(self, event: events.Happening, name: str, category: str, **args: Any) -> Iterator[dict[str, Any]]:
        stack = self._open[event.thread]
        while len(stack) >= _OPEN_SPANS:
            stack.pop()
            yield self._span("E", self._track(event.thread), event.time_us)
        stack.append(name)
        args.update(step=event.step, stage=event.stage, place=self._names.place(event.location))
        span = self._span("B", self._track(event.thread), event.time_us)
        yield {**span, "name": name, "cat": category, "args": args}

    def _backward(self, event: events.Backward) -> Iterator[dict[str, Any]]:
        yield from self._begin(event, "backward", "backward", inputs=event.inputs)
        if isinstance(event.loss_value, float):  # What is not finite cannot be drawn; it has an instant of its own.
            yield self._counter(event, "loss", {"loss": event.loss_value})

    def _end(self, event: events.Happening, name: str, **args: Any) -> Iterator[dict[str, Any]]:
        """End the innermost span of this name, and those inside it, which an exception left open."""
        stack = self._open[event.thread]
        if name not in stack:
            return
        while True:
            innermost = stack.pop()
            span = self._span("E", self._track(event.thread), event.time_us)
            if innermost == name:
                yield {**span, "args": args} if args else span
                return
            yield span

    def _instants(self, event: events.Happening) -> Iterator[dict[str, Any]]:
        if isinstance(event, events.Gradient):
            self._count(event.statistics)
            return
        args: dict[str, Any] = {"step": event.step, "place": self._names.place(event.location)}
        if isinstance(event, events.NonFinite):
            name = self._names.tensor_name(event.tensor) or self._names.module_name(event.module)
            name = f"non-finite {event.where}{f': {name}' if name else ''}"
            args["count"] = event.count
        elif isinstance(event, events.Problem):
            name = f"problem: {event.message}"
        elif isinstance(event, events.CallFunction):
            name = event.target
            args.update(inputs=event.inputs, outputs=event.outputs)
        elif isinstance(event, events.ReadValue):
            name = f"{event.target} = {event.value}"
        elif isinstance(event, _SETTINGS):
            yield from self._settings(event, args)
            return
        elif isinstance(event, events.FlowStep):
            came_out = event.value if event.iterations is None else f"{event.iterations} times"
            name = f"{event.construct} {event.text}: {came_out}"
        else:
            return
        span = self._span("i", self._track(event.thread), event.time_us)
        scope, category = "t", "flow" if isinstance(event, events.FlowStep) else "torch"
        if isinstance(event, (events.NonFinite, events.Problem)):
            scope, category = "p", "warning"
        yield {**span, "s": scope, "name": name, "cat": category, "args": args}

    def _settings(
        self, event: events.Configuration | events.Loss | events.Optimizer, args: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        """What is told once, and again where it has changed."""
        if isinstance(event, events.Configuration):
            name = "settings of torch"
            args.update(event.settings)
        elif isinstance(event, events.Loss):
            name = "a way to compute a loss"
            args["nodes"] = [node.name for node in event.nodes]
        else:
            name = f"settings of {event.optimizer}"
            groups = dict(zip((f"group {index}" for index in event.indices), event.groups, strict=False))
            args.update({group: found.settings for group, found in groups.items()})
            rates = {group: found.settings.get("lr") for group, found in groups.items()}
            rates = {group: rate for group, rate in rates.items() if type(rate) in (int, float)}
            if rates:
                yield self._counter(event, f"learning rate of {event.optimizer}", rates)
        yield {
            **self._span("i", self._track(event.thread), event.time_us),
            "s": "t",
            "name": name,
            "cat": "settings",
            "args": args,
        }

    def _step(self, event: events.OptimizerStepEnd) -> Iterator[dict[str, Any]]:
        span = self._span("X", _STEPS_TRACK, self._step_began_us)
        duration = max(0, event.time_us - self._step_began_us)
        yield {**span, "dur": duration, "name": f"step {event.step}", "cat": "step", "args": {"stage": event.stage}}
        self._step_began_us = event.time_us
        if self._has_gradients:
            norm = math.sqrt(self._square_sum)
            counters = {"non-finite gradient elements": self._nonfinite}
            if math.isfinite(norm):
                counters["gradient norm"] = norm  # type: ignore[assignment]
            for name, value in counters.items():
                yield self._counter(event, name, {name: value})
        self._square_sum, self._nonfinite, self._has_gradients = 0.0, 0, False

    def _count(self, statistics: events.Statistics | None) -> None:
        if statistics is not None:
            self._has_gradients = True
            self._nonfinite += statistics.nonfinite
            norm = float(statistics.norm or 0.0)
            self._square_sum += norm * norm  # ** would raise where this overflows to infinity.

    def _span(self, phase: str, track: int, time_us: int) -> dict[str, Any]:
        return {"ph": phase, "pid": self._process, "tid": track, "ts": time_us + self._offset_us}

    def _counter(self, event: events.Happening, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._span("C", self._track(event.thread), event.time_us), "name": name, "args": dict(values)}

    def _name(self, what: str, track: int, name: str) -> dict[str, Any]:
        return {"ph": "M", "name": what, "pid": self._process, "tid": track, "args": {"name": name}}

    def _track(self, thread: int) -> int:
        return thread or _MAIN_TRACK  # Viewers take 0 for an idle processor.
