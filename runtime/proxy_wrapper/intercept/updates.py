"""Sees gradients and the changes of parameters and buffers, at each step of an optimizer.

PyTorch's global optimizer hooks say when; `Tensor._version`, the address of the values and the identity of the
tensor say what has changed otherwise since the last look.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from proxy_wrapper.events import Gradient, NonFinite, OptimizerStep, OptimizerStepEnd, Update
from proxy_wrapper.levels import INFO
from proxy_wrapper.statistics import PendingStatistics, summarize, unobserved
from proxy_wrapper.tracer import data_ptr_of, version_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.utils.hooks import RemovableHandle

    from proxy_wrapper.events import Statistics
    from proxy_wrapper.registry import StateEntry
    from proxy_wrapper.statistics import PendingOr
    from proxy_wrapper.tracer import Tracer


_SMALL_BUFFER: Final = 1 << 16
"""Up to this many elements a buffer is looked at each time: `batch_norm` changes running statistics behind the
version count."""


class Updates:
    """Makes `OptimizerStep`, `Gradient`, `Update` and `OptimizerStepEnd` events, and `NonFinite` ones for them."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._handles: list[RemovableHandle] = []

    def install(self) -> None:
        """Register the hooks."""
        if not self._handles:
            self._handles = [
                register_optimizer_step_pre_hook(self._before),
                register_optimizer_step_post_hook(self._after),
            ]

    def remove(self) -> None:
        """Remove the hooks."""
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()

    def look(self) -> None:
        """Record what has changed outside of any optimizer since the last look."""
        tracer = self._tracer
        changed: list[tuple[StateEntry, torch.Tensor, str]] = []
        for entry in tracer.registry:
            module = entry.module()
            if module is None:
                continue
            tracer.define_new_state(entry, module)
            for state in entry.state:
                tensor = state.tensor()
                if tensor is not None:
                    cause = self._cause(state, tensor)
                    if cause:
                        changed.append((state, tensor, cause))
        if changed:
            self._record_updates(changed, 0)

    def _cause(self, state: StateEntry, tensor: torch.Tensor) -> str:
        """Why `tensor` may have other values than at the last look; "" if it has the same."""
        if id(tensor) != state.identity:
            self._tracer.registry.bind(state, tensor)
            return "replaced"
        if version_of(tensor) != state.version:
            return "in-place"
        if state.suspected or data_ptr_of(tensor) != state.data_ptr:
            return "data"
        if state.is_buffer and tensor.is_floating_point() and tensor.numel() <= _SMALL_BUFFER:
            return "data"
        return ""

    def _before(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        try:
            with torch._C.DisableTorchFunction():
                self._begin(optimizer, _has_closure(args, kwargs))
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            self._tracer.fail(error)

    def _after(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        try:
            with torch._C.DisableTorchFunction():
                self._end(optimizer, _has_closure(args, kwargs))
        except Exception as error:  # noqa: BLE001
            self._tracer.fail(error)

    def _begin(self, optimizer: torch.optim.Optimizer, has_closure: bool) -> None:
        states = self._states(optimizer)
        if not states:
            return
        tracer = self._tracer
        began = tracer.thread.optimizer_began_us = tracer.now_us()
        location = tracer.locator.locate(3)
        tracer.thread.optimizer_location = location
        name, thread, stage = type(optimizer).__name__, tracer.thread.number, tracer.thread.stage
        event = OptimizerStep(began, tracer.step, 0, location, thread, stage, name, len(states))
        for channel in {state.holder.channel for state, _ in states if state.holder.level <= INFO}:
            channel.emit(event, location)
        self.look()
        if not has_closure:
            self._record_gradients(states, location)

    def _end(self, optimizer: torch.optim.Optimizer, has_closure: bool) -> None:
        states = self._states(optimizer)
        if not states:
            return
        tracer = self._tracer
        location = tracer.thread.optimizer_location
        tracer.thread.optimizer_location = 0
        if has_closure:  # Only now: it is the closure that made the gradients.
            self._record_gradients(states, location)
        self._record_updates([(state, tensor, "step") for state, tensor in states], location)
        now = tracer.now_us()
        name, thread, stage = type(optimizer).__name__, tracer.thread.number, tracer.thread.stage
        duration = now - tracer.thread.optimizer_began_us
        event = OptimizerStepEnd(now, tracer.step, 0, location, thread, stage, name, duration)
        for channel in {state.holder.channel for state, _ in states if state.holder.level <= INFO}:
            channel.emit(event, location)
        tracer.step += 1

    def _states(self, optimizer: torch.optim.Optimizer) -> list[tuple[StateEntry, torch.Tensor]]:
        """The proxied parameters that `optimizer` updates, in its order."""
        find = self._tracer.registry.state_entry
        found = []
        for tensor in chain.from_iterable(group["params"] for group in optimizer.param_groups):
            state = find(tensor)
            if state is not None:
                found.append((state, tensor))
        return found

    def _record_gradients(self, states: Sequence[tuple[StateEntry, torch.Tensor]], location: int) -> None:
        tracer = self._tracer
        with unobserved() as readable:
            gradients = [_gradient_of(tensor) for _, tensor in states]
            statistics = summarize(gradients if readable else [None] * len(gradients))
        now, step, thread, stage = tracer.now_us(), tracer.step, tracer.thread.number, tracer.thread.stage
        for (state, _), gradient, numbers in zip(states, gradients, statistics, strict=True):
            if state.holder.level <= INFO:
                module = state.holder.id
                event = Gradient(now, step, module, location, thread, stage, state.id, numbers)  # type: ignore[arg-type]
                state.holder.channel.emit(event, location)
            if gradient is not None:
                self._check(state, "gradient", gradient, numbers, location)

    def _record_updates(self, changed: Sequence[tuple[StateEntry, torch.Tensor, str]], location: int) -> None:
        tracer = self._tracer
        with unobserved() as readable:
            statistics = summarize([tensor if readable else None for _, tensor, _ in changed])
            now, step, thread, stage = tracer.now_us(), tracer.step, tracer.thread.number, tracer.thread.stage
            for (state, tensor, cause), numbers in zip(changed, statistics, strict=True):
                version = version_of(tensor)
                has_same_values = numbers is not None and numbers == state.statistics
                if cause == "data" and (has_same_values or numbers is None):
                    self._note(state, tensor, version, numbers)
                    continue
                if cause == "step" and version == state.version and has_same_values:
                    cause = "unchanged"  # noqa: PLW2901
                words = tracer.describer.describe(tensor) if cause == "replaced" else ""
                self._note(state, tensor, version, numbers)
                if state.holder.level <= INFO:
                    state.holder.channel.emit(
                        Update(
                            now,
                            step,
                            state.holder.id,
                            location,
                            thread,
                            stage,
                            state.id,
                            numbers,  # type: ignore[arg-type]
                            version,
                            cause,
                            words,
                        ),
                        location,
                    )
                self._check(state, "buffer" if state.is_buffer else "parameter", tensor, numbers, location)

    @staticmethod
    def _note(state: StateEntry, tensor: torch.Tensor, version: int, numbers: PendingOr) -> None:
        state.version = version
        state.data_ptr = data_ptr_of(tensor)
        state.statistics = numbers
        state.suspected = False

    def _check(self, state: StateEntry, where: str, tensor: torch.Tensor, numbers: PendingOr, location: int) -> None:
        """Say so at the first non-finite value of this tensor."""
        if numbers is None or where in state.has_been_nonfinite:
            return
        if isinstance(numbers, PendingStatistics):
            count: Any = _PendingNonFinite(numbers)
        elif numbers.nonfinite:
            state.has_been_nonfinite.add(where)
            count = numbers.nonfinite
        else:
            return
        tracer = self._tracer
        state.holder.channel.emit(
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
            ),
            location,
        )


class _PendingNonFinite:
    """The count in statistics that are still on their way."""

    __slots__ = ("_statistics",)

    def __init__(self, statistics: PendingStatistics) -> None:
        self._statistics = statistics

    def resolve(self) -> int:
        resolved: Statistics = self._statistics.resolve()
        return resolved.nonfinite


def _gradient_of(tensor: torch.Tensor) -> torch.Tensor | None:
    return tensor.grad if tensor.is_leaf else None


def _has_closure(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether `step` was given a closure: the first argument after the optimizer itself."""
    return kwargs.get("closure") is not None or (len(args) > 1 and args[1] is not None)
