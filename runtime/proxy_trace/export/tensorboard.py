"""Exports a run to TensorBoard: numbers as scalars, findings as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from proxy_trace.checks.finding_text import message_of
from proxy_trace.errors import MissingExtraError
from proxy_trace.export.output import whole_or_nothing
from proxy_trace.export.result import ExportCounter, Exported
from proxy_trace.summary.run_summary import summarize
from proxy_trace.terminal.colour import for_terminal
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import TypeAlias

    from proxy_trace.checks.finding import Finding
    from proxy_trace.reading.names import Names
    from proxy_trace.reading.trace import Trace, TraceFile
    from proxy_trace.reading.workers import Workers

    Scalar: TypeAlias = "tuple[str, float]"

_BATCH: Final = 1 << 13
_FILE: Final = "events.out.tfevents.{started_s}.proxy_trace"


def export_tensorboard(trace: Trace, target: Path, workers: Workers, *, force: bool = False) -> Exported:
    """Write an event file per process, in the folder `target/<run>/<name of the trace file>`.

    Tags are `loss/<file:line>`, `learning_rate/<optimizer>`, `norm/<name>`, `minimum/<name>`, `maximum/<name>` and
    `gradient_norm/<name>`. Scalars are float64, so they keep the exact values of the trace. Findings are in the file of
    the first process, as text at their step, tagged `findings/<code>`. A trace has no histograms.

    Args:
        trace: the run.
        target: the logdir for TensorBoard; it may contain other runs.
        workers: reads the files for the findings.
        force: whether to replace earlier exports of these processes.

    Raises:
        MissingExtraError: if TensorBoard is not installed.
        OutputExistsError: if a process was exported before, unless `force`.
        UnwritableFileError: if writing fails.
        UnreadableFileError: if reading fails.
    """
    try:
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ImportError as error:
        raise MissingExtraError("The format of TensorBoard", "tensorboard", "tensorboard") from error

    findings: Sequence[Finding] = summarize(trace, workers).findings
    counter = ExportCounter(workers.report)
    size_bytes = 0
    for file in trace.files:
        started_s = file.started_us() / 1e6
        path = target / file.run.run / file.path.stem / _FILE.format(started_s=int(started_s))
        with whole_or_nothing(path, force=force) as aside:
            with aside.open("wb") as stream:
                writer = RecordWriter(stream)
                make = _EventMaker(started_s)
                writer.write(make.header())
                for finding in findings:
                    writer.write(make.text(f"findings/{finding.code}", finding))
                findings = ()
                for event, scalars in _scalars(file, counter):
                    writer.write(make.scalars(event, scalars))
            size_bytes += aside.stat().st_size
    return counter.exported(target, size_bytes)


class _EventMaker:
    """Creates encoded TensorBoard events."""

    def __init__(self, started_s: float) -> None:
        from tensorboard.compat.proto import event_pb2, summary_pb2, types_pb2

        self._started_s = started_s
        self._event: Any = event_pb2.Event
        self._double, self._string = types_pb2.DT_DOUBLE, types_pb2.DT_STRING
        self._metadata = {
            name: summary_pb2.SummaryMetadata(
                plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name=name), data_class=data_class
            )
            for name, data_class in (
                ("scalars", summary_pb2.DATA_CLASS_SCALAR),
                ("text", summary_pb2.DATA_CLASS_TENSOR),
            )
        }

    def header(self) -> bytes:
        """The first event of a file."""
        return self._encoded(self._event(wall_time=self._started_s, file_version="brain.Event:2"))

    def scalars(self, event: events.Happening, scalars: Sequence[Scalar]) -> bytes:
        """An event with numbers, at the step of `event`."""
        found = self._event(wall_time=self._started_s + event.time_us / 1e6, step=event.step)
        for tag, value in scalars:
            each = found.summary.value.add(tag=tag, metadata=self._metadata["scalars"])
            each.tensor.dtype = self._double
            each.tensor.double_val.append(value)
        return self._encoded(found)

    def text(self, tag: str, finding: Finding) -> bytes:
        """A finding at its step, as preformatted text, because TensorBoard reads text as Markdown."""
        words = f"{finding.severity}: {message_of(finding)}"
        if finding.place:
            words = f"{words}\n{finding.place}"
        indented = "\n".join(f"    {for_terminal(line)}" for line in words.splitlines())
        found = self._event(wall_time=self._started_s + (finding.time_us or 0) / 1e6, step=finding.step or 0)
        each = found.summary.value.add(tag=tag, metadata=self._metadata["text"])
        each.tensor.dtype = self._string
        each.tensor.tensor_shape.dim.add(size=1)
        each.tensor.string_val.append(indented.encode("utf-8", "backslashreplace"))
        return self._encoded(found)

    @staticmethod
    def _encoded(event: Any) -> bytes:
        encoded: bytes = event.SerializeToString()
        return encoded


def _scalars(file: TraceFile, counter: ExportCounter) -> Iterator[tuple[events.Happening, list[Scalar]]]:
    """The events of a file that have numbers, with these numbers."""
    names = file.names()
    rates = _Rates()
    for batch in counter.batches(file, _BATCH):
        for event in batch:
            found = rates.take(event) if isinstance(event, _OF_RATES) else _numbers(event, names)
            if found and isinstance(event, events.Happening):
                yield event, found


_OF_RATES: Final = (events.Optimizer, events.OptimizerStep)


def _numbers(event: events.AnyEvent, names: Names) -> list[Scalar]:
    """The numbers in an event."""
    if isinstance(event, events.Backward):
        place = names.place(event.location) or "unknown"
        return [] if event.loss_value is None else [(f"loss/{_tag(place)}", float(event.loss_value))]
    if not isinstance(event, (events.Update, events.Gradient)) or event.statistics is None:
        return []
    if isinstance(names.tensors.get(event.tensor), events.OptimizerState):
        return []
    name = _tag(names.tensor_name(event.tensor))
    told = event.statistics
    if isinstance(event, events.Gradient):
        values = {"gradient_norm": told.norm}
    else:
        values = {"norm": told.norm, "minimum": told.minimum, "maximum": told.maximum}
    return [(f"{what}/{name}", float(value)) for what, value in values.items() if value is not None]


class _Rates:
    """The learning rates of optimizers at each of their steps."""

    def __init__(self) -> None:
        self._rates: dict[int, dict[int, float]] = {}

    def take(self, event: events.Optimizer | events.OptimizerStep) -> list[Scalar]:
        """Process a record of an optimizer; returns the rates if it is a step."""
        if isinstance(event, events.Optimizer):
            rates = self._rates.setdefault(event.id, {})
            for index, group in zip(event.indices, event.groups, strict=False):
                rate = group.settings.get("lr")
                if isinstance(rate, (int, float)) and not isinstance(rate, bool):
                    rates[index] = float(rate)
            return []
        rates = self._rates.get(event.optimizer_id, {})
        name = _tag(f"{event.optimizer} {event.optimizer_id}" if len(self._rates) > 1 else event.optimizer)
        if len(rates) == 1:
            return [(f"learning_rate/{name}", rate) for rate in rates.values()]
        return [(f"learning_rate/{name}/group {index}", rate) for index, rate in sorted(rates.items())]


def _tag(name: str) -> str:
    """A name as a tag: text without unprintable characters."""
    return for_terminal(name)
