"""Names the tensors that optimizers keep for proxied parameters, and records their changes.

Optimizer state is created in the first step, replaced by loading, and may be anything. So it is examined before and
after each step and, while there may be new state, at each torch call within one.
"""

from __future__ import annotations

import weakref
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import torch

from proxy_wrapper.events import Update, have_same_values
from proxy_wrapper.intercept.state.state_records import Batch
from proxy_wrapper.known.entries import OptimizerStateEntry
from proxy_wrapper.known.optimizer_state import find_entry, tensors_kept
from proxy_wrapper.levels import DEBUG, INFO
from proxy_wrapper.values.given_values import statistics_of
from proxy_wrapper.values.value_marks import version_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from proxy_wrapper.known.entries import ModuleEntry, StateEntry
    from proxy_wrapper.known.state_tensors import StateTensors
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.tracer import Tracer
    from proxy_wrapper.values.statistics import PendingOr


class _Kept(NamedTuple):
    """A tensor of optimizer state that already has a name. `is_replaced`: another tensor had its name until now."""

    entry: OptimizerStateEntry
    tensor: torch.Tensor
    is_replaced: bool


class OptimizerStates:
    """Creates `OptimizerState` events, and the `Update` events of these tensors."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def before_step(self, optimizer: torch.optim.Optimizer, states: StateTensors, location: int) -> None:
        """Record state of the parameters `states` that was loaded into `optimizer` since its last step."""
        if not self._tracer.follows_optimizers:
            return
        known = self._look(optimizer, states)
        self._record(
            [each for each in known if each.is_replaced or version_of(each.tensor) != each.entry.version], location, ""
        )
        thread = self._tracer.thread
        size = _size(optimizer)
        if size[0] < sum(len(group["params"]) for group in optimizer.param_groups):
            thread.optimizer, thread.optimizer_size = weakref.ref(optimizer), size

    def after_step(self, optimizer: torch.optim.Optimizer, states: StateTensors, location: int) -> None:
        """Record how a step has changed the state of the parameters `states`."""
        if self._tracer.follows_optimizers:
            self._record(self._look(optimizer, states), location, "step")

    def adopt(self, thread: ThreadState) -> None:
        """Name the state that the optimizer stepping in `thread` has created since the last call."""
        optimizer = None if thread.optimizer is None else thread.optimizer()
        if optimizer is None:
            return
        size = _size(optimizer)
        if size == thread.optimizer_size:
            return
        # The last parameter may have received more state since.
        count = size[0] - thread.optimizer_size[0] + 1
        thread.optimizer_size = size
        tracer = self._tracer
        with tracer.lock, torch._C.DisableTorchFunction():
            parameters = islice(reversed(optimizer.__dict__["state"]), count)
            pairs = [
                (state, parameter)
                for parameter in parameters
                if isinstance(parameter, torch.Tensor) and (state := tracer.registry.state_entry(parameter)) is not None
            ]
            self._look(optimizer, pairs)

    def _look(self, optimizer: torch.optim.Optimizer, states: Iterable[tuple[StateEntry, torch.Tensor]]) -> list[_Kept]:
        """Define state tensors that have no name yet; returns those that had one, each once."""
        registry = self._tracer.registry
        known: dict[OptimizerStateEntry, _Kept] = {}
        new: dict[OptimizerStateEntry, torch.Tensor] = {}
        for state, parameter in states:
            if not _is_followed(state.holder):
                continue
            for key, tensor in tensors_kept(optimizer, parameter):
                found = find_entry(registry, optimizer, state, key, tensor)
                entry = found.entry
                if not isinstance(entry, OptimizerStateEntry) or entry in new:
                    continue
                if found.is_to_be_defined:
                    new[entry] = tensor
                    known.pop(entry, None)
                else:
                    known.setdefault(entry, _Kept(entry, tensor, found.is_replaced))
        if new:
            self._define(new)
        return list(known.values())

    def _define(self, new: Mapping[OptimizerStateEntry, torch.Tensor]) -> None:
        """Send the definitions of tensors, with their statistics if these are recorded."""
        statistics = self._statistics(new)
        for entry, tensor in new.items():
            entry.watched = entry.of.watched
            if entry in statistics:
                entry.statistics = statistics[entry]
                entry.version = version_of(tensor)
            self._tracer.definitions.define_tensor(entry, tensor)

    @staticmethod
    def _statistics(tensors: Mapping[OptimizerStateEntry, torch.Tensor]) -> dict[OptimizerStateEntry, PendingOr]:
        """Statistics of the tensors whose changes are recorded."""
        wanted = [entry for entry in tensors if entry.holder.watch.wants_all and entry.of.watched]
        return dict(zip(wanted, statistics_of([tensors[entry] for entry in wanted]), strict=True))

    def _record(self, kept: Sequence[_Kept], location: int, cause: str) -> None:
        """Record changes by a step or, if `cause` is "", between two steps."""
        tracer = self._tracer
        now, thread = tracer.now_us(), tracer.thread
        batch = Batch()
        statistics = self._statistics({each.entry: each.tensor for each in kept})
        for entry, tensor, is_replaced in kept:
            if entry not in statistics:
                continue
            before, numbers = entry.statistics, statistics[entry]
            entry.statistics, entry.version = numbers, version_of(tensor)
            words = tracer.describer.describe(tensor)
            has_type_of_before, entry.type = words == entry.type, words
            is_same = have_same_values(before, numbers) and has_type_of_before
            if is_same and not cause:
                continue
            what = "unchanged" if is_same else cause or ("replaced" if is_replaced else "in-place")
            type_ = "" if has_type_of_before and what != "replaced" else words
            holder = entry.holder
            event = Update(
                now,
                tracer.step,
                holder.id,
                location,
                thread.number,
                thread.stage,
                entry.id,
                numbers,  # type: ignore[arg-type]
                entry.version,
                what,
                type_,
            )
            batch.of(holder.channel).append(event)
        batch.send()


def _is_followed(holder: ModuleEntry) -> bool:
    """Whether the optimizer state of a module's parameters is named."""
    return holder.level <= DEBUG or (holder.level <= INFO and holder.watch.wants_all)


def _size(optimizer: torch.optim.Optimizer) -> tuple[int, int]:
    """How many parameters an optimizer has state for, and how many entries the last of them has."""
    state = optimizer.__dict__.get("state")
    if not isinstance(state, dict) or not state:
        return 0, 0
    last = state[next(reversed(state))]
    return len(state), len(last) if isinstance(last, dict) else 0
