"""Creates the records of gradients and of changed parameters and buffers, with their statistics."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.events import Gradient, NonFinite, Statistics, Update, have_same_values
from proxy_wrapper.levels import INFO
from proxy_wrapper.values.pending import PendingNonFinite, PendingStatistics
from proxy_wrapper.values.statistics import summarize, unobserved
from proxy_wrapper.values.value_marks import marks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from proxy_wrapper.known.entries import ModuleEntry, StateEntry
    from proxy_wrapper.known.state_tensors import Changes, StateTensors
    from proxy_wrapper.tracer import Tracer
    from proxy_wrapper.values.statistics import PendingOr
    from proxy_wrapper.writing.channel import Channel


class Redescribed(NamedTuple):
    """A tensor's new description, if it has changed.

    `is_converted`: same shape, other dtype or device. `is_moved`: other device.
    """

    words: str = ""
    is_converted: bool = False
    is_moved: bool = False


_AS_BEFORE: Final = Redescribed()

is_watched: Final[Callable[[StateEntry], bool]] = attrgetter("watched")
"""Whether updates and gradients are recorded. `attrgetter` saves a Python call per tensor."""


class StateRecords:
    """Creates `Gradient`, `Update` and `NonFinite` events for given tensors."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def gradients(self, states: StateTensors, location: int, *, has_optimizer: bool = True) -> list[Gradient]:
        """The gradients of the watched parameters, as events not yet sent."""
        tracer = self._tracer
        watched = states.where(is_watched)
        with unobserved() as readable:
            statistics = summarize([gradient_of(tensor) if readable else None for tensor in watched.tensors])
        now, step, thread, stage = tracer.now_us(), tracer.step, tracer.thread.number, tracer.thread.stage
        return [
            Gradient(
                now,
                step,
                state.holder.id,
                location,
                thread,
                stage,
                state.id,
                numbers,  # type: ignore[arg-type]
                has_optimizer,
            )
            for state, numbers in zip(watched.entries, statistics, strict=True)
        ]

    def statistics_of_gradients(self, states: StateTensors) -> list[PendingOr]:
        """The statistics of the parameters' gradients."""
        with unobserved() as readable:
            return summarize([gradient_of(tensor) if readable else None for tensor in states.tensors])

    def send_gradients(self, gradients: Sequence[Gradient]) -> None:
        """Send the events made by `gradients`, and report each tensor's first non-finite gradient."""
        find = self._tracer.registry.state.get
        batch = Batch()
        for event in gradients:
            state = find(event.tensor)
            if state is None:
                continue
            holder = state.holder
            if holder.configured_level <= INFO:
                batch.of(holder.channel).append(event)
            numbers = event.statistics
            if numbers is not None and (type(numbers) is not Statistics or numbers.nonfinite):
                tensor = state.tensor()
                if tensor is not None:
                    self._check(state, "gradient", tensor, numbers, event.location, batch)
        batch.send()

    def record_updates(self, changes: Changes, location: int, *, is_compared: bool = True) -> list[StateEntry]:
        """Record tensors that have, or may have, changed; returns the entries of those that have.

        A step that was not recorded at its time gets its own step number.

        Args:
            changes: the tensors and their causes.
            location: where.
            is_compared: whether the values before a step are known to equal the last record. If not, a change that
                bypassed the version count may have preceded the step.
        """
        recorded: list[StateEntry] = []
        tracer = self._tracer
        batch = Batch()
        resized: set[ModuleEntry] = set()
        with unobserved() as readable:
            statistics = summarize(changes.of.tensors if readable else [None] * len(changes))
            now, thread, stage = tracer.now_us(), tracer.thread.number, tracer.thread.stage
            rows = zip(changes.of.entries, changes.of.tensors, changes.causes, statistics, strict=True)
            for state, tensor, supposed, numbers in rows:
                version, data_ptr = marks_of(tensor)
                redescribed = _AS_BEFORE
                if supposed == "replaced" or data_ptr != state.data_ptr:
                    redescribed = self._describe_anew(state, tensor, supposed, resized)
                before = state.statistics
                cause = _cause(state, supposed, numbers, version, redescribed, is_compared=is_compared)
                step = tracer.step if state.unrecorded_step < 0 else state.unrecorded_step
                self._note(state, version, data_ptr, numbers)
                if redescribed.is_moved:
                    tracer.definitions.define_tensor(state, tensor)
                if not cause:
                    continue
                if cause != "converted" and not _is_uncertain(state, cause, numbers):
                    recorded.append(state)
                state.suspected = not readable  # The next look will read the values.
                holder = state.holder
                if holder.configured_level <= INFO:
                    event = Update(
                        now,
                        step,
                        holder.id,
                        location,
                        thread,
                        stage,
                        state.id,
                        numbers,  # type: ignore[arg-type]
                        version,
                        cause,
                        redescribed.words,
                    )
                    batch.of(holder.channel).append(event)
                if state.is_buffer and _has_as_many_nonfinite(before, numbers):
                    continue
                if numbers is not None and (type(numbers) is not Statistics or numbers.nonfinite):
                    self._check(state, "buffer" if state.is_buffer else "parameter", tensor, numbers, location, batch)
        if resized:
            tracer.definitions.define_holders(resized)
        batch.send()
        return recorded

    def _describe_anew(
        self, state: StateEntry, tensor: torch.Tensor, cause: str, resized: set[ModuleEntry]
    ) -> Redescribed:
        """The description of a tensor that was replaced or moved in memory.

        Its module is added to `resized` if the shape has changed.
        """
        words = self._tracer.describer.describe(tensor)
        before, state.type = state.type, words
        is_resized = words.partition("[")[2] != before.partition("[")[2]
        is_moved = str(tensor.device) != state.device
        if is_resized:
            resized.add(state.holder)
        if cause == "replaced":
            self._tracer.definitions.define_placements(state, tensor)
            return Redescribed(words, is_converted=False, is_moved=is_moved)
        is_converted = not is_resized and (is_moved or words != before)
        return Redescribed(words if is_moved or words != before else "", is_converted, is_moved)

    @staticmethod
    def _note(state: StateEntry, version: int, data_ptr: int, numbers: PendingOr) -> None:
        state.version = version
        state.data_ptr = data_ptr
        state.statistics = numbers
        state.suspected = False
        state.unrecorded_step = -1

    def _check(
        self, state: StateEntry, where: str, tensor: torch.Tensor, numbers: PendingOr, location: int, batch: Batch
    ) -> None:
        """Report the first non-finite value of this tensor or of its gradient."""
        if numbers is None or where in state.has_been_nonfinite:
            return
        if isinstance(numbers, PendingStatistics):
            count: Any = PendingNonFinite(numbers)
        elif numbers.nonfinite:
            state.has_been_nonfinite |= {where}
            count = numbers.nonfinite
        else:
            return
        tracer = self._tracer
        cause = tracer.thread.singularity if where == "gradient" else None
        if cause is not None and cause.step != tracer.step:
            cause = None
        if cause is not None:
            tracer.thread.singularity = None  # The other gradients only follow from the first one.
            if cause.computed:
                state.holder.channel.define_location(cause.computed)
        batch.of(state.holder.channel).append(
            NonFinite(
                tracer.now_us(),
                tracer.step,
                state.holder.id,
                location,
                tracer.thread.number,
                tracer.thread.stage,
                where,
                state.id,
                count,
                tracer.describer.describe(tensor),
                0 if cause is None else cause.computed,
                "",
                "" if cause is None else cause.operation,
            )
        )


class Batch:
    """Events that are sent together, per channel, in the order in which they were added."""

    def __init__(self) -> None:
        self._events: dict[Channel, list[Gradient | Update | NonFinite]] = {}

    def of(self, channel: Channel) -> list[Gradient | Update | NonFinite]:
        """The list of events for `channel`, to be appended to."""
        events = self._events.get(channel)
        if events is None:
            events = self._events[channel] = []
        return events

    def send(self) -> None:
        """Send all events. Those of a channel share a location."""
        for channel, events in self._events.items():
            channel.emit_all(events, events[0].location)


def _cause(
    state: StateEntry, supposed: str, now: PendingOr, version: int, redescribed: Redescribed, *, is_compared: bool
) -> str:
    """The cause of a change, as in `Update`; "" if nothing has changed.

    Args:
        state: the entry as before the change.
        supposed: the supposed cause.
        now: its statistics.
        version: its version count.
        redescribed: its new description.
        is_compared: as in `record_updates`.
    """
    is_same = have_same_values(state.statistics, now)
    has_same_version = version == state.version
    if supposed == "step":
        if is_same:
            return "unchanged"
        if has_same_version and type(now) is Statistics:
            if not (is_compared or state.bypasses_version):
                supposed = "data"
            state.bypasses_version = True
        return supposed
    if redescribed.is_converted:
        return "converted"
    if supposed == "replaced" or redescribed.words:
        return supposed
    if is_same or (now is None and supposed == "data"):
        return ""
    if supposed == "data" and type(now) is Statistics:
        state.bypasses_version = True
    return supposed


def _is_uncertain(state: StateEntry, cause: str, now: PendingOr) -> bool:
    """Whether the change is uncertain until values arrive; the writer drops the record if there was none.

    A tensor that has changed without its version count before is assumed to do so again.
    """
    return cause == "data" and isinstance(now, PendingStatistics) and not state.bypasses_version


def _has_as_many_nonfinite(before: PendingOr, now: PendingOr) -> bool:
    """Whether a buffer only holds the infinities it was created with (a mask, a bound), which loading restores."""
    return type(before) is Statistics and type(now) is Statistics and 0 < now.nonfinite <= before.nonfinite


def gradient_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The accumulated gradient of a leaf; None if it has none or is no leaf."""
    return tensor.grad if tensor.is_leaf else None
