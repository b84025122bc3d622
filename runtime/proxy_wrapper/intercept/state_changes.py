"""Finds out which parameters and buffers have changed outside of any optimizer, whichever way.

A version count that moved, another tensor under the name, or values at another address tell at once. What goes around
the version count (`p.data.clamp_()`, a NumPy view, another process) shows in the values alone, and to compare the
values of a whole model before each step would cost as much as a third of its statistics. A program that does such
things does them in its loop, though: so all tensors are compared at the first looks and at some of the later ones, and
those found to have changed that way at every one from then on.

What other threads train is theirs to look at: they may be in the middle of changing it, and a tensor that somebody
holds cannot be swapped.

A tensor found in the place of another one right before a call may have been put there for that call alone, as by
`torch.func.functional_call`. It counts once it is still there afterwards.

Where values cannot be read, nothing is looked at: what a transform of `torch.func` puts into a module's place for its
parameters is there for that call alone, and what has changed behind it shows at the next look.
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

    from proxy_wrapper.intercept.state_records import StateRecords
    from proxy_wrapper.known.entries import StateEntry
    from proxy_wrapper.tracer import Tracer

_FIRST_LOOKS: Final = 4
"""The looks at which the values of all tensors are compared."""

_EVERY: Final = 16
"""Of the later looks, those at which they are compared again: all at once, since alike ones are cheaper together."""

_SMALL_BUFFER: Final = 1 << 16
"""Up to this many elements a buffer is looked at each time: `batch_norm` changes running statistics behind the
version count, and the observers of quantization zero points, which are of `int32`."""


_NONE: Final[frozenset[Any]] = frozenset()


class StateChanges:
    """Looks at all state of all proxied modules, and has recorded what has changed."""

    def __init__(self, tracer: Tracer, records: StateRecords) -> None:
        self._tracer = tracer
        self._records = records

    def look(self, *, is_last: bool = False) -> Sequence[StateEntry]:
        """Record what has changed since the last look; gives what has.

        Args:
            is_last: whether nobody will look again. Then every value is compared, and steps that were left out by
                `every` are recorded, so that the trace ends with the state that the model was left in.
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
        """Before a module is called from outside: record changes since the last call, if no step came between.

        This is how a program that trains without an optimizer is seen, one that clips weights in a loop of its own,
        and one that loads weights before it evaluates. It costs a look at each version, so buffers are left to `look`.

        Args:
            trains_by_hand: whether the program trains without an optimizer, so that what has changed in iterations
                that are not recorded is not left for its next step.
            has_trained: whether the program may have trained since the last glance, and by hand have changed the
                parameters in whatever way. Before it does, none of the first looks is spent.
            left_out: parameters that are not looked at.

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
        # Once there are steps, all are compared again at those: evaluation costs nothing but its first calls.
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
        """The parameters that a glance looks at, with their entries."""
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
        """Record the tensors that were found in the place of others before a call, and still are there after it.

        Returns:
            The parameters whose tensors they are.
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
        """Whether `tensor`, which is not the one that has the name of `state`, may be put away again after the call."""
        before, state.put_in = state.put_in, id(tensor)
        if before == state.put_in or (before and not _is_in_functional_call()):
            return False
        self._tracer.thread.put_in.append(state)
        return True

    def follow_step(self) -> None:
        """Let the next glance follow upon the present step."""
        thread = self._tracer.thread
        thread.glanced_step = thread.steps

    def _present(self) -> Iterator[tuple[StateEntry, torch.Tensor]]:
        """The parameters and buffers of all modules that there are now, with their entries; what is new is defined.

        Left out are the models of other threads: to read a tensor that one is working on may end the program.
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
        """What tells without a look at the values that `tensor` may have others than last time; "" if nothing does."""
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
        """Add those with other values than before; on an accelerator all of them: there the values come later."""
        before = [state.statistics for state in suspects.entries]
        with unobserved() as readable:
            found = bits_of(suspects.tensors) if readable else [None] * len(suspects)
        for (state, tensor), known, bits in zip(suspects, before, found, strict=True):
            if isinstance(known, PendingStatistics) or (
                isinstance(known, Statistics) and bits not in (known.bits, None)
            ):
                changes.add(state, tensor, "data")


def _is_in_functional_call() -> bool:
    """Whether this thread is in `torch.func.functional_call`, which puts tensors into a module for one call."""
    stateless = sys.modules.get("torch.nn.utils.stateless")
    code = getattr(getattr(stateless, "_functional_call", None), "__code__", None)
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def _is_changed_by_kernels(buffer: torch.Tensor) -> bool:
    return (is_floating_point(buffer) or buffer.dtype is torch.int32) and numel(buffer) <= _SMALL_BUFFER
