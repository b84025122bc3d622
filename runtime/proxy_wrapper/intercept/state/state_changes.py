"""Detects parameters and buffers that have changed without an optimizer.

A changed version count, tensor or address shows at once. Changes that bypass the version count (`p.data.clamp_()`, a
NumPy view, another process) show only in the values. Comparing all values before each step would add up to a third
of the cost of their statistics. But programs that make such changes do so in their loop. So all tensors are compared
at the first looks and at some later ones; those found to have changed that way are compared at every later look.

The models of other threads are left to those threads: they may be in the middle of a change, and a tensor that
somebody holds a reference to cannot be swapped.

A tensor found replaced right before a call may be there for that call alone, as by `torch.func.functional_call`. It
counts as replaced if it is still there afterwards.

Nothing is examined where values cannot be read: what a `torch.func` transform puts in place of a module's parameters
is there for that call alone, and any other change shows at the next look.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.events import Statistics
from proxy_wrapper.known.state_tensors import Changes, StateTensors
from proxy_wrapper.values.pending import PendingStatistics
from proxy_wrapper.values.statistics import are_values_readable, bits_of, unobserved
from proxy_wrapper.values.torch_functions import is_floating_point, numel
from proxy_wrapper.values.value_marks import marks_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType

    from proxy_wrapper.intercept.state.state_records import StateRecords
    from proxy_wrapper.known.entries import StateEntry
    from proxy_wrapper.tracer import Tracer

_FIRST_LOOKS: Final = 4
"""The number of first looks that compare the values of all tensors."""

_EVERY: Final = 16
"""One in this many later looks compares all values; comparing similar tensors together is cheaper."""

_SMALL_BUFFER: Final = 1 << 16
"""Buffers of up to this many elements are compared at each look: `batch_norm` changes running statistics without the
version count, and so do the observers of quantization with zero points, which are `int32`."""


_NONE: Final[frozenset[Any]] = frozenset()


class StateChanges:
    """Examines the state of all proxied modules, and has its changes recorded."""

    def __init__(self, tracer: Tracer, records: StateRecords) -> None:
        self._tracer = tracer
        self._records = records

    def look(self, *, is_last: bool = False) -> Sequence[StateEntry]:
        """Record what has changed since the last look, and return it.

        Args:
            is_last: whether this is the final look. Then all values are compared, and steps left out by `every` are
                recorded, so that the trace ends with the final state of the model.
        """
        if not are_values_readable():
            return []
        changes, suspects = Changes(), StateTensors()
        thread = self._tracer.thread
        turn, thread.looks = thread.looks, thread.looks + 1
        compares_all = thread.has_compared_all = is_last or turn < _FIRST_LOOKS or turn % _EVERY == 0
        for state, tensor in self._present():
            cause = self._cause(state, tensor)
            if not state.watched or (state.unrecorded_step >= 0 and not is_last):
                continue
            if cause:
                changes.add(state, tensor, "step" if state.unrecorded_step >= 0 else cause)
            elif state.is_buffer and _is_changed_by_kernels(tensor):
                changes.add(state, tensor, "data")
            elif compares_all or state.bypasses_version:
                suspects.add(state, tensor)
        if suspects:
            self._add_changed(suspects, changes)
        return self._records.record_updates(changes, 0) if changes else []

    def glance(
        self, *, trains_by_hand: bool, has_trained: bool, left_out: frozenset[StateEntry] = _NONE
    ) -> Sequence[StateEntry]:
        """Record changes before an outermost module call, if no optimizer step came since the last one.

        This finds programs that train without an optimizer, clip weights in their own loop, or load weights before
        evaluation. It reads each version count; buffers are left to `look`.

        Args:
            trains_by_hand: whether the program trains without an optimizer. Then changes in unrecorded iterations are
                not left to its next step.
            has_trained: whether the program may have trained since the last glance, by hand in any way. Glances before
                that do not count as first looks.
            left_out: parameters to skip.

        Returns:
            The parameters that have changed.
        """
        tracer = self._tracer
        if not are_values_readable():
            return []
        thread = tracer.thread
        if thread.steps != thread.glanced_step:
            thread.glanced_step = thread.steps
            return []
        turn = thread.glances
        thread.glances += has_trained
        # Once there are steps, everything is compared at those instead: evaluation only pays at its first calls.
        compares_all = has_trained and (turn < _FIRST_LOOKS or (not tracer.step and turn % _EVERY == 0))
        changes, suspects = Changes(), StateTensors()
        for state, tensor in self._glanced_at(left_out, trains_by_hand=trains_by_hand):
            if id(tensor) != state.identity and self._may_be_for_this_call(state, tensor):
                continue
            cause = self._cause(state, tensor)
            if cause:
                changes.add(state, tensor, cause)
            elif compares_all or state.bypasses_version:
                suspects.add(state, tensor)
        if suspects:
            self._add_changed(suspects, changes)
        for state in changes.of.entries:
            state.unrecorded_step = -1
        return self._records.record_updates(changes, 0) if changes else []

    def _glanced_at(
        self, left_out: frozenset[StateEntry], *, trains_by_hand: bool
    ) -> Iterator[tuple[StateEntry, torch.Tensor]]:
        """The parameters that a glance examines, with their entries."""
        tracer = self._tracer
        is_alone, thread = tracer.is_alone(), tracer.thread
        for state in list(tracer.registry.state.values()):
            if state.is_buffer or not state.watched or state.holder.is_paused or state in left_out:
                continue
            if state.unrecorded_step >= 0 and not trains_by_hand:
                continue
            if not is_alone and tracer.is_used_elsewhere(state.holder, thread):
                continue
            tensor = state.tensor()
            if tensor is not None:
                yield state, tensor

    def confirm(self) -> Sequence[StateEntry]:
        """Record the tensors that were found replaced before a call and still are after it.

        Returns:
            The parameters concerned.
        """
        thread = self._tracer.thread
        if not thread.put_in or not are_values_readable():
            return []
        put_in, thread.put_in = thread.put_in, []
        changes = Changes()
        for state in put_in:
            tensor = state.tensor()
            if tensor is not None and state.put_in == id(tensor) != state.identity:
                changes.add(state, tensor, self._cause(state, tensor))
            state.put_in = 0
        return self._records.record_updates(changes, 0) if changes else []

    def _may_be_for_this_call(self, state: StateEntry, tensor: torch.Tensor) -> bool:
        """Whether `tensor`, a replacement of that of `state`, may be removed again after the call."""
        before, state.put_in = state.put_in, id(tensor)
        if before == state.put_in or (before and not _is_in_functional_call()):
            return False
        self._tracer.thread.put_in.append(state)
        return True

    def follow_step(self) -> None:
        """Make the next glance skip, because it follows this step."""
        thread = self._tracer.thread
        thread.glanced_step = thread.steps

    def _present(self) -> Iterator[tuple[StateEntry, torch.Tensor]]:
        """The present parameters and buffers of all modules, with their entries. New ones are defined.

        Models of other threads are left out: reading a tensor that another thread is changing may crash.
        """
        tracer = self._tracer
        is_alone, thread = tracer.is_alone(), tracer.thread
        for entry in tracer.registry:
            module = entry.module()
            if module is None or (not is_alone and tracer.is_used_elsewhere(entry, thread)):
                continue
            self._tracer.definitions.define_new_state(entry, module)
            for state in entry.state:
                tensor = state.tensor()
                if tensor is not None:
                    self._tracer.definitions.define_freezing(state, tensor)
                    yield state, tensor

    def _cause(self, state: StateEntry, tensor: torch.Tensor) -> str:
        """The visible reason that `tensor` may have new values, without reading them; "" if there is none."""
        if id(tensor) != state.identity:
            self._tracer.registry.bind(state, tensor)
            return "replaced"
        self._tracer.registry.bind_again(state, tensor)
        version, data_ptr = marks_of(tensor)
        if version != state.version:
            return "in-place"
        if state.suspected or data_ptr != state.data_ptr:
            return "data"
        return ""

    def _add_changed(self, suspects: StateTensors, changes: Changes) -> None:
        """Add the suspects whose values have changed; on an accelerator all of them, as values arrive later."""
        before = [state.statistics for state in suspects.entries]
        with unobserved() as readable:
            found = bits_of(suspects.tensors) if readable else [None] * len(suspects)
        for (state, tensor), known, bits in zip(suspects, before, found, strict=True):
            if isinstance(known, PendingStatistics) or (
                isinstance(known, Statistics) and bits not in (known.bits, None)
            ):
                changes.add(state, tensor, "data")


def _is_in_functional_call() -> bool:
    """Whether this thread is inside `torch.func.functional_call`, which replaces tensors for one call."""
    stateless = sys.modules.get("torch.nn.utils.stateless")
    code = getattr(getattr(stateless, "_functional_call", None), "__code__", None)
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def _is_changed_by_kernels(buffer: torch.Tensor) -> bool:
    return (is_floating_point(buffer) or buffer.dtype is torch.int32) and numel(buffer) <= _SMALL_BUFFER
