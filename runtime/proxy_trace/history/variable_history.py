"""Follows one variable through a run: what created its tensor in each iteration, its uses, and its values."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence  # noqa: TC003  msgspec looks the types of fields up.
from typing import TYPE_CHECKING, Any, Final

import msgspec

from proxy_trace.reading.places import Place, find_place
from proxy_trace.reading.selection import kind_of
from proxy_trace.tensors.given_back import how_given_back
from proxy_trace.tensors.identity import Subject, find_subjects
from proxy_trace.tensors.origins import Origins, new_numbers
from proxy_trace.tensors.questions import asks_only
from proxy_trace.tensors.same_values import are_same_values
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy_trace.reading.names import Names
    from proxy_trace.reading.trace import Trace, TraceFile

OPEN_ENTRIES: Final = 1024
"""The most tensors of the variable that are followed at once; uses of older ones are not reported."""

_USES: Final = 64
_MADE: Final = 1024
"""The most tensors of one call that are followed."""

_PLACES: Final = 1 << 14
_OPEN_CALLS: Final = 256
"""The maximum nesting of calls, and the most threads; what other calls created is not reported."""


class Use(msgspec.Struct, frozen=True):
    """A use of a tensor: `by` is a function, method, module or attribute, "backward", or "item" and the like."""

    by: str
    step: int
    time_us: int
    place: str = ""


class HistoryEntry(msgspec.Struct):
    """One record of the history of a variable.

    Attributes:
        name: the variable: "model.fc.weight", "model.fc", or its place of creation, "net.py:14:torch.relu:0".
        kind: the kind of the record: "gradient", "update", "call_function", "call_module", ...
        rank: the rank of the process.
        time_us: microseconds since the first process of the run started.
        step: the number of optimizer steps that had ended.
        stage: "train", "eval", or the program's own name.
        place: where.
        module: the enclosing module call, or the holder of the parameter or buffer. Two blocks of one class create
            their tensors at the same place.
        target: what was called or read.
        inputs: the inputs: names, places of creation, or else types.
        types: the types of created tensors ("float32[64, 10]"), of the parameter or buffer, or of what was read.
        statistics: those of the new values, or of the gradient.
        cause: why a parameter or buffer changed, as in `Update.cause`; for a call, whether it raised an exception, or
            returned its input changed ("in place") or unchanged ("itself").
        is_same: whether an update left the values as they were, to the bit; None if unknown.
        value: the value that Python read.
        uses: the uses of the created tensors, up to a limit.
        more_uses: the number of further uses.
    """

    name: str
    kind: str
    rank: int
    time_us: int
    step: int = 0
    stage: str = ""
    place: Place | None = None
    module: str = ""
    target: str = ""
    inputs: list[str] = []
    types: Sequence[str] = ()
    statistics: events.Statistics | None = None
    cause: str = ""
    is_same: bool | None = None
    value: bool | int | float | str | None = None
    uses: list[Use] = []
    more_uses: int = 0


def follow(trace: Trace, what: str, names: Sequence[Names] | None = None) -> Iterator[HistoryEntry]:
    """The history of `what` in all files, by time. Memory does not grow with the length of the run.

    Args:
        trace: the run.
        what: a name, a glob, or a place, as `find_subjects` has it.
        names: resolves the ids in each file, if already read.

    Raises:
        UnknownNameError: if there is no such name.
        UnknownPlaceError: if nothing was recorded at that place.
        UnreadableFileError: if the file system refuses.
    """
    names = names or [file.names() for file in trace.files]
    subjects = find_subjects(what, names)
    first_us = min(file.started_us() for file in trace.files)
    streams = [
        _Follower(file, of_file, subject, file.started_us() - first_us).entries()
        for file, of_file, subject in zip(trace.files, names, subjects, strict=True)
    ]
    return heapq.merge(*streams, key=lambda entry: entry.time_us)


class _Call:
    """An open call of a module, and its entry if it is followed."""

    __slots__ = ("entry", "event")

    def __init__(self, event: events.CallModule, entry: HistoryEntry | None) -> None:
        self.event = event
        self.entry = entry


class _Follower:
    """One pass over a file."""

    def __init__(self, file: TraceFile, names: Names, subject: Subject, offset_us: int) -> None:
        self._file = file
        self._names = names
        self._subject = subject
        self._offset_us = offset_us
        self._state_names = {
            name for id_ in subject.tensors for name in (names.tensors[id_].name, *names.tensors[id_].aliases)
        }
        self._values: dict[int, events.Statistics | None] = {}
        self._open: deque[tuple[HistoryEntry, list[int]]] = deque()
        self._by_number: dict[int, HistoryEntry] = {}
        self._origins = Origins()
        self._calls: dict[int, list[_Call]] = {}
        self._places: dict[int, Place | None] = {}
        self._latest_us = 0
        self._takers: dict[type, Callable[[Any], None]] = {
            events.Parameter: self._define,
            events.Buffer: self._define,
            events.OptimizerState: self._define,
            events.Gradient: self._state_event,
            events.Update: self._state_event,
            events.NonFinite: self._state_event,
            events.CallFunction: self._call,
            events.CallMethod: self._call,
            events.GetAttr: self._get_attr,
            events.SetAttr: self._set_attr,
            events.ReadValue: self._read_value,
            events.CallModule: self._call_module,
            events.ReturnModule: self._return_module,
            events.Backward: self._backward,
            events.OptimizerStep: self._optimizer_step,
        }

    def entries(self) -> Iterator[HistoryEntry]:
        """The entries in order; each is yielded when its uses are complete, or when it is too old to wait for more."""
        for event in self._file.read():
            if isinstance(event, events.Happening):
                self._latest_us = max(self._latest_us, event.time_us)
            take = self._takers.get(type(event))
            if take is not None:
                take(event)
            while len(self._open) > OPEN_ENTRIES:
                yield self._finish()
        while self._open:
            yield self._finish()

    def _finish(self) -> HistoryEntry:
        entry, numbers = self._open.popleft()
        for number in numbers:
            if self._by_number.get(number) is entry:
                del self._by_number[number]
        return entry

    def _set_attr(self, event: events.SetAttr) -> None:
        if event.value_id:
            self._use([event.value_id], f"{event.owner}.{event.target} =", event)

    def _read_value(self, event: events.ReadValue) -> None:
        if not asks_only(event):
            self._taking_only(event, event.target, event.value)

    def _backward(self, event: events.Backward) -> None:
        self._taking_only(event, event.function, None)

    def _taking_only(self, event: events.ReadValue | events.Backward, target: str, value: Any) -> None:
        """Add a record that uses tensors and creates none."""
        self._use(event.input_ids, target, event)
        if self._subject.has_call(event.location, target, 0):
            inputs = self._inputs(event.inputs, event.input_ids)
            self._add(event, self._variable(event, target, 0), target=target, inputs=inputs, value=value)

    def _optimizer_step(self, event: events.OptimizerStep) -> None:
        if self._subject.has_call(event.location, event.optimizer, 0):
            self._add(event, self._variable(event, event.optimizer, 0), target=event.optimizer)

    # Parameters and buffers

    def _define(self, event: events.StateTensor) -> None:
        if event.id not in self._subject.tensors:
            return
        self._state_names.update((event.name, *event.aliases))
        if self._subject.only_gradients:
            return
        self._values.setdefault(event.id, event.statistics)
        self._latest_us = max(self._latest_us, event.time_us)
        time_us = self._latest_us + self._offset_us
        entry = HistoryEntry(event.name, kind_of(event), self._file.run.rank, time_us)
        entry.module = self._names.module_name(event.module)
        entry.types, entry.statistics = [event.type], event.statistics
        self._open.append((entry, []))

    def _state_event(self, event: events.Gradient | events.Update | events.NonFinite) -> None:
        is_gradient = isinstance(event, events.Gradient) or (
            isinstance(event, events.NonFinite) and event.where == "gradient"
        )
        tensors = self._subject.tensors
        if event.tensor not in tensors or (self._subject.only_gradients and not is_gradient):
            of_module = isinstance(event, events.NonFinite) and not event.tensor
            if not (of_module and event.module in self._subject.modules):
                return
        tensor = self._names.tensors.get(event.tensor)
        name = self._names.tensor_name(event.tensor) or self._names.module_name(event.module)
        type_ = getattr(event, "type", "") or (tensor.type if tensor is not None else "")
        fields: dict[str, Any] = {"types": [type_] if type_ else []}
        if isinstance(event, events.NonFinite):
            fields.update(target=event.where, value=event.count)
        else:
            fields.update(statistics=event.statistics)
        if isinstance(event, events.Update):
            before, self._values[event.tensor] = self._values.get(event.tensor), event.statistics
            fields["cause"] = event.cause
            fields["is_same"] = None if event.cause == "converted" else are_same_values(before, event.statistics)
        self._add(event, f"{name}.grad" if self._subject.only_gradients else name, **fields)

    # What makes tensors

    def _call(self, event: events.CallFunction) -> None:
        inputs = event.input_ids
        if asks_only(event):
            return
        self._use(inputs, event.target, event)
        made = new_numbers(inputs, event.output_ids)
        is_followed = self._subject.has_call(event.location, event.target, event.ordinal)
        is_of_state = not self._state_names.isdisjoint(event.inputs) and not self._subject.only_gradients
        if is_followed or is_of_state:
            name = self._variable(event, event.target, event.ordinal)
            if not is_followed:
                name = next(each for each in event.inputs if each in self._state_names)
            origins = self._inputs(event.inputs, inputs)
            entry = self._add(event, name, made, target=event.target, inputs=origins, types=event.outputs)
            entry.cause = "raised" if event.raised else how_given_back(event)
        self._origins.note_call(f"{self._names.place(event.location)}:{event.target}", inputs, made)

    def _get_attr(self, event: events.GetAttr) -> None:
        if not event.value_id:
            return
        if event.owner_id:
            self._use([event.owner_id], f".{event.target}", event)
        owner = self._origins.name(event.owner_id) or event.owner
        if not event.known and self._subject.has_call(event.location, event.target, event.ordinal):
            name = self._variable(event, event.target, event.ordinal)
            self._add(event, name, [event.value_id], target=event.target, inputs=[owner], types=[event.value])
        if not self._origins.name(event.value_id):  # A gradient or a view; a stored tensor was created elsewhere.
            self._origins.note_call(f"{owner}.{event.target}", [event.owner_id], [event.value_id])

    def _call_module(self, event: events.CallModule) -> None:
        module = self._names.module_name(event.module)
        self._use(event.input_ids, module, event)
        is_followed = event.module in self._subject.modules
        entry = None
        if is_followed or self._subject.has_call(event.location, module, event.ordinal):
            name = module if is_followed else self._variable(event, module, event.ordinal)
            inputs = self._inputs(event.inputs, event.input_ids)
            entry = self._add(event, name, target=module, inputs=inputs)
            around = self._calls.get(event.thread)
            entry.module = self._names.module_name(around[-1].event.module) if around else ""
        if event.thread not in self._calls and len(self._calls) >= _OPEN_CALLS:
            return  # Too many threads to attribute tensors.
        calls = self._calls.setdefault(event.thread, [])
        if len(calls) >= _OPEN_CALLS:
            del calls[: _OPEN_CALLS // 2]  # The outermost calls never ended.
        calls.append(_Call(event, entry))

    def _return_module(self, event: events.ReturnModule) -> None:
        module = self._names.module_name(event.module)
        if event.keyword_ids:
            self._use(list(event.keyword_ids.values()), module, event)
        calls = self._calls.get(event.thread, [])
        if any(call.event.module == event.module for call in calls):
            while (call := calls.pop()).event.module != event.module:
                pass
            if call.entry is not None:
                call.entry.types = event.outputs
                call.entry.cause = "raised" if event.raised else ""
                inputs = self._inputs(
                    list(event.keywords.values()), [event.keyword_ids.get(key, 0) for key in event.keywords]
                )
                call.entry.inputs = call.entry.inputs + inputs
                self._watch(call.entry, new_numbers(call.event.input_ids, event.output_ids))
            if not calls:
                del self._calls[event.thread]
        self._origins.note_module(module, [], event.output_ids)

    # Bookkeeping

    def _add(self, event: events.Happening, name: str, made: Sequence[int] = (), **fields: Any) -> HistoryEntry:
        entry = HistoryEntry(
            name,
            kind_of(event),
            self._file.run.rank,
            self._latest_us + self._offset_us,
            event.step,
            event.stage,
            self._place(event.location),
            self._names.module_name(event.module),
            **fields,
        )
        self._open.append((entry, []))
        self._watch(entry, made)
        return entry

    def _watch(self, entry: HistoryEntry, made: Sequence[int]) -> None:
        """Report uses of these tensors to `entry` from now on."""
        numbers = next((numbers for other, numbers in reversed(self._open) if other is entry), None)
        if numbers is not None:
            made = made[:_MADE]
            numbers.extend(made)
            self._by_number.update(dict.fromkeys(made, entry))

    def _use(self, numbers: Sequence[int], by: str, event: events.Happening) -> None:
        entries = {id(entry): entry for entry in map(self._by_number.get, numbers) if entry is not None}
        for entry in entries.values():
            if len(entry.uses) >= _USES:
                entry.more_uses += 1
                continue
            use = Use(by, event.step, self._latest_us + self._offset_us, self._names.place(event.location))
            entry.uses = [*entry.uses, use]

    def _inputs(self, descriptions: Sequence[str], numbers: Sequence[int]) -> list[str]:
        """The origin of each input; its description if that was not seen."""
        padded = [*numbers, *[0] * (len(descriptions) - len(numbers))]
        return [
            self._origins.name(number) or description for description, number in zip(descriptions, padded, strict=False)
        ]

    def _variable(self, event: events.Happening, target: str, ordinal: int) -> str:
        """The name of the result of a call of `target` at the place of `event`."""
        return f"{self._names.place(event.location)}:{target}:{ordinal}"

    def _place(self, id_: int) -> Place | None:
        if id_ not in self._names.locations:
            return None
        if id_ not in self._places:
            if len(self._places) >= _PLACES:
                self._places.clear()
            self._places[id_] = find_place(id_, self._names)
        return self._places[id_]
