"""One of two runs compared by records: its records, each with its key for alignment."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from proxy_trace.reading.names import MOST_DEFINITIONS
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy_trace.comparison.records.correspondence import Numbers
    from proxy_trace.reading.names import Names
    from proxy_trace.reading.trace import TraceFile

BEFORE_FIRST_CALL: Final = -1
"""The step of what is defined before the first call."""

_REMEMBERED: Final = 1 << 13
"""The number of recent records kept to find the origin of a value."""

_OPEN_CALLS: Final = 1 << 10

AT_DEBUG: Final[frozenset[type]] = frozenset(
    {events.CallFunction, events.CallMethod, events.ReadValue, events.GetAttr, events.SetAttr, events.DelAttr}
    | {events.OptimizerState}
)
"""Records that exist only at level DEBUG."""


Key: TypeAlias = "tuple[Any, ...]"
"""What a record is aligned by. It begins with the record's class and its step. A definition has the step of the
record before it."""

Record: TypeAlias = "tuple[Key, Any, int]"
"""A record's key, its event, and, for the return of a module, the location of its call, else 0. A plain tuple,
because there are millions."""


def step_of(record: Record) -> int:
    """The number of completed optimizer steps; `BEFORE_FIRST_CALL` for the initial state."""
    return int(record[0][1])


class Side:
    """One file of one run.

    Attributes:
        file: the file.
        names: its definitions.
        last_step: the last completed optimizer step; -1 for none.
        latest_step: the step of the latest record read.
        end: how the process ended, from `RunEnd`; "" if unknown.
        recent: the latest events read, in order.
    """

    def __init__(
        self,
        file: TraceFile,
        names: Names,
        modules: Numbers,
        tensors: Numbers,
        *,
        thread: int = 0,
        is_wanted: Callable[[Any], bool] | None = None,
    ) -> None:
        """Set up without reading.

        Args:
            file: the trace.
            names: its definitions.
            modules: by module id, the number shared by both sides.
            tensors: the same for parameters and buffers.
            thread: the thread whose records are read.
            is_wanted: which records to read; None for all.
        """
        self.file = file
        self.names = names
        self.last_step = -1
        self.latest_step = BEFORE_FIRST_CALL
        self.end = ""
        self.recent: deque[Any] = deque(maxlen=_REMEMBERED)
        self.reading = file.read()
        self._modules = modules
        self._tensors = tensors
        self._thread = thread
        self._is_wanted = is_wanted
        self._defined: set[int] = set()
        self._calls: list[tuple[int, int]] = []

    def records(self) -> Iterator[Record]:
        """Yield the records of the thread.

        Raises:
            UnreadableFileError: if the file cannot be read.
        """
        keys = self._key_makers()
        is_wanted, thread, note = self._is_wanted, self._thread, self.recent.append
        definitions, calls, configuration = _DEFINITIONS, _CALLS, events.Configuration
        event: Any
        for event in self.reading:
            kind = type(event)
            make_key = keys.get(kind)
            if make_key is None:
                if kind is events.RunEnd:
                    self.end = f"{event.reason} {event.error}".rstrip()
                continue
            called_at = 0
            if kind in definitions:
                if thread or not self._is_new(event.id):
                    continue
            elif event.thread != thread:
                continue
            else:
                if kind is not configuration:
                    self.latest_step = event.step
                if kind in calls:
                    called_at = self._called_at(event)
                elif kind is events.OptimizerStepEnd:
                    self.last_step = event.step
            if is_wanted is None or is_wanted(event):
                note(event)
                yield make_key(event), event, called_at

    def _is_new(self, id_: int) -> bool:
        """Whether this is the first definition of a parameter or buffer. Later ones change its name or flags."""
        if id_ in self._defined or len(self._defined) >= MOST_DEFINITIONS:
            return False
        self._defined.add(id_)
        return True

    def _called_at(self, event: events.CallModule | events.ReturnModule) -> int:
        calls = self._calls
        if isinstance(event, events.CallModule):
            if len(calls) >= _OPEN_CALLS:
                del calls[: _OPEN_CALLS // 2]
            calls.append((event.module, event.location))
            return event.location
        while calls:
            module, location = calls.pop()
            if module == event.module:
                return location
        return 0

    def _key_makers(self) -> dict[type, Callable[[Any], Key]]:
        modules, tensors = self._modules, self._tensors

        def of_state(event: Any) -> Key:
            return (type(event), self.latest_step, tensors[event.id])

        def of_tensor(event: Any) -> Key:
            return (type(event), event.step, event.stage, tensors[event.tensor])

        def of_module(event: Any) -> Key:
            return (type(event), event.step, event.stage, modules[event.module])

        def of_call(event: Any) -> Key:
            return (type(event), event.step, event.stage, modules[event.module], event.target, event.ordinal)

        def of_call_module(event: Any) -> Key:
            return (type(event), event.step, event.stage, modules[event.module], event.ordinal)

        def of_target(event: Any) -> Key:
            return (type(event), event.step, event.stage, modules[event.module], event.target)

        def of_optimizer(event: Any) -> Key:
            return (type(event), event.step, event.stage, event.optimizer)

        def of_backward(event: Any) -> Key:
            return (type(event), event.step, event.stage, modules[event.module], event.function)

        def of_configuration(event: Any) -> Key:
            return (type(event), event.step)

        def of_non_finite(event: Any) -> Key:
            place = modules[event.module], event.where, tensors[event.tensor]
            return (type(event), event.step, event.stage, *place)

        return {
            events.Configuration: of_configuration,
            events.Parameter: of_state,
            events.Buffer: of_state,
            events.OptimizerState: of_state,
            events.CallModule: of_call_module,
            events.ReturnModule: of_module,
            events.Backward: of_backward,
            events.BackwardEnd: of_module,
            events.Optimizer: of_optimizer,
            events.OptimizerStep: of_optimizer,
            events.OptimizerStepEnd: of_optimizer,
            events.Gradient: of_tensor,
            events.Update: of_tensor,
            events.NonFinite: of_non_finite,
            events.CallFunction: of_call,
            events.CallMethod: of_call,
            events.ReadValue: of_target,
            events.GetAttr: of_call,
            events.SetAttr: of_target,
            events.DelAttr: of_target,
        }


_DEFINITIONS: Final = frozenset({events.Parameter, events.Buffer, events.OptimizerState})
_CALLS: Final = frozenset({events.CallModule, events.ReturnModule})
