"""Exports a run as Chrome trace JSON, for Perfetto (https://ui.perfetto.dev) and chrome://tracing.

Each process of the run is a process there, and each thread a track of nested spans: module calls, backward passes and
optimizer steps. Calls of torch functions are instants. Another track shows the training steps. Counters show the norm
of all gradients and the number of non-finite values at each step. The format is the Chromium project's "Trace Event
Format": phases B and E begin and end a span, X is a complete span, i an instant, C a counter, M a name. Times are in
microseconds.
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
"""The maximum depth of nested spans, and the maximum number of threads. Beyond these, the oldest spans are ended."""

_STEPS_TRACK: Final = 1 << 30
"""Track numbers are thread numbers. The track of training steps has a number that no operating system assigns."""


def export_chrome(trace: Trace, target: Path, *, force: bool = False, report: Report | None = None) -> Exported:
    """Write `trace` to the file `target`, compressed if its name ends in `.gz`. Memory use is bounded.

    Args:
        trace: the run.
        target: the file.
        force: whether to replace an existing file.
        report: called repeatedly with the number of bytes read since the previous call.

    Raises:
        OutputExistsError: if the file exists, unless `force`.
        OutputIsFolderError: if `target` is a folder.
        UnwritableFileError: if writing fails.
        UnreadableFileError: if reading fails.
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
    # Compressed files contain no time, so the same trace gives the same bytes.
    return gzip.GzipFile(path, "wb", mtime=0) if compressed else path.open("wb")  # type: ignore[return-value]


class Timeline:
    """Converts the records of one process to spans, instants and counters."""

    def __init__(self, process: int, names: Names, offset_us: int) -> None:
        """Set up.

        Args:
            process: its number in the timeline. Process ids may not be unique across machines.
            names: the definitions of its ids.
            offset_us: added to all times.
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
        """The timeline entries for `event`."""
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
        """The ends of spans that are still open at the end of the trace, at its last time."""
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
        if isinstance(event.loss_value, float):  # A non-finite value has its own instant.
            yield self._counter(event, "loss", {"loss": event.loss_value})

    def _end(self, event: events.Happening, name: str, **args: Any) -> Iterator[dict[str, Any]]:
        """End the innermost span of this name, and spans inside it that an exception left open."""
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
        """An instant for what is recorded once and whenever it changes."""
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
        return thread or _MAIN_TRACK  # Viewers treat 0 as an idle processor.
