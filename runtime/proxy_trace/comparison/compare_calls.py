"""Compares the calls, module outputs and torch settings of two runs, step by step.

`side_by_side` compares the model's state after each step. This module also compares what happens after the last step.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_trace.comparison.configuration import SettingDifference, SettingsComparer
from proxy_trace.comparison.records.correspondence import find_correspondence
from proxy_trace.comparison.records.recorded import Recorded
from proxy_trace.comparison.step_tally import StepTally, pair_up
from proxy_trace.states.differences import is_same
from proxy_trace.states.member_differences import MemberDifferences
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from proxy_trace.reading.report import Report
    from proxy_trace.reading.trace import TraceFile
    from proxy_trace.states.differences import GroupedDifference

OUTPUT: Final = "output"
ENDS_IN_ORDER: Final = frozenset({"exit", "unproxied"})
"""The reason in `RunEnd` of a process that finished normally."""

_NO_STEP: Final = -1


class CallComparison(NamedTuple):
    """The result of comparing the calls of two processes.

    Attributes:
        configuration: the torch settings that differ.
        first_step: the first step in which the numbers of calls differ; None if there is none.
        calls: the number of calls of each in the steps compared.
        outputs: the modules whose outputs differ.
        changes: the parameters and buffers that differ after what followed the last step.
        is_partial: whether one process does not record all the calls that the other does. The numbers then mean
            nothing.
        have_outputs: whether each process recorded values of module outputs.
    """

    configuration: list[SettingDifference]
    first_step: int | None
    calls: list[int]
    outputs: list[GroupedDifference]
    changes: list[GroupedDifference]
    is_partial: bool
    have_outputs: list[bool]


def compare_calls(
    files: Sequence[TraceFile],
    is_step_wanted: Callable[[int], bool],
    is_chosen: Callable[[str], bool] | None,
    report: Report,
) -> CallComparison:
    """Read two files side by side. Memory grows with the model and with the number of differences.

    Args:
        files: the two files.
        is_step_wanted: which steps to compare.
        is_chosen: the modules whose outputs to compare, by name; None for all.
        report: called repeatedly with the number of bytes read since the previous call.

    Raises:
        UnreadableFileError: if a file cannot be read.
    """
    settings = SettingsComparer()
    readers = [_Reader(file, partial(settings.note, number), report) for number, file in enumerate(files)]
    collector = _Collector(is_step_wanted, is_chosen, settings)
    for reader in readers:
        reader.advance()
    while not any(reader.has_ended for reader in readers):
        behind = min(readers, key=lambda reader: reader.step)
        if readers[0].step == readers[1].step:
            collector.compare(behind.step, readers)
            for reader in readers:
                reader.advance()
        else:  # Only one has this step.
            behind.advance()
    for reader in readers:
        while not reader.has_ended:
            reader.advance()
    if readers[0].last_step == readers[1].last_step and all(reader.end in ENDS_IN_ORDER for reader in readers):
        collector.compare(readers[0].last_step + 1, readers)
        collector.compare_changes(readers[0].last_step + 1, readers)
    names = [reader.reading.names for reader in readers]
    return CallComparison(
        collector.configuration,
        collector.first_step,
        collector.calls,
        collector.outputs(),
        [*collector.found.differences("parameter"), *collector.found.differences("buffer")],
        Recorded(names, find_correspondence(*names)).is_partial,
        [reader.has_outputs for reader in readers],
    )


class _Reader:
    """The position in one process's trace: at the end of `step`, or of the trace."""

    def __init__(self, file: TraceFile, on_settings: Callable[[events.Configuration], None], report: Report) -> None:
        self.reading = file.read()
        self.tally = StepTally(on_settings)
        self.step = _NO_STEP
        self.last_step = _NO_STEP
        self.has_ended = False
        self.has_outputs = False
        self.end = ""
        self._events: Iterator[Any] = iter(self.reading)
        self._report = report
        self._reported = 0

    def advance(self) -> None:
        """Read to the end of the next step, or of the trace. Steps that restart the count belong to the one before."""
        self.tally.clear()
        note = self.tally.note
        for event in self._events:
            note(event)
            if isinstance(event, events.OptimizerStepEnd):
                if event.step > self.last_step:
                    self.step = self.last_step = event.step
                    break
            elif isinstance(event, events.RunEnd):
                self.end = f"{event.reason} {event.error}".rstrip()
        else:
            self.has_ended = True
        self.has_outputs |= bool(self.tally.outputs)
        self._report(self.reading.bytes_read - self._reported)
        self._reported = self.reading.bytes_read


class _Collector:
    """Collects the differences in steps that both runs have."""

    def __init__(
        self,
        is_step_wanted: Callable[[int], bool],
        is_chosen: Callable[[str], bool] | None,
        settings: SettingsComparer,
    ) -> None:
        self.configuration: list[SettingDifference] = []
        self.calls = [0, 0]
        self.first_step: int | None = None
        self._is_step_wanted = is_step_wanted
        self._is_chosen = is_chosen
        self._settings = settings
        self.found = MemberDifferences((0, 1))
        self._order: dict[str, int] = {}

    def compare(self, step: int, readers: Sequence[_Reader]) -> None:
        """Compare what both did since the previous step."""
        self.configuration += self._settings.differences(step)
        if not self._is_step_wanted(step):
            return
        calls = [reader.tally.calls for reader in readers]
        self.calls = [before + now for before, now in zip(self.calls, calls, strict=True)]
        if calls[0] != calls[1] and self.first_step is None:
            self.first_step = step
        first, second = (reader.reading.names for reader in readers)
        others = {second.module_name(id_): outputs for id_, outputs in readers[1].tally.outputs.items()}
        for id_, outputs in readers[0].tally.outputs.items():
            name = first.module_name(id_)
            if name in others and (self._is_chosen is None or self._is_chosen(name)):
                self._order.setdefault(name, len(self._order))
                for one, other in pair_up(outputs.all(), others[name].all(), is_same):
                    self.found.compare(OUTPUT, name, step, [(0b01, one), (0b10, other)])

    def compare_changes(self, step: int, readers: Sequence[_Reader]) -> None:
        """Compare the parameters and buffers that either run has changed since the last step."""
        if readers[0].last_step == _NO_STEP or not self._is_step_wanted(step):
            return  # Without steps, the final values are compared anyway.
        held = [
            {
                tensor.name: (id_, tensor)
                for id_, tensor in reader.reading.names.tensors.items()
                if id_ in reader.tally.values and not isinstance(tensor, events.OptimizerState)
            }
            for reader in readers
        ]
        for name in sorted(held[0].keys() & held[1].keys()):
            (one, tensor), (other, like) = held[0][name], held[1][name]
            tallies = [reader.tally for reader in readers]
            has_changed = one in tallies[0].changed or other in tallies[1].changed
            if has_changed and tensor.type == like.type and (self._is_chosen is None or self._is_chosen(name)):
                kind = "buffer" if isinstance(tensor, events.Buffer) else "parameter"
                self.found.compare(kind, name, step, [(0b01, tallies[0].values[one]), (0b10, tallies[1].values[other])])

    def outputs(self) -> list[GroupedDifference]:
        """The modules whose outputs differ, by step, then by the order of their first return."""
        found = self.found.differences(OUTPUT)
        return sorted(found, key=lambda each: (each.first_step, self._order[each.name]))
