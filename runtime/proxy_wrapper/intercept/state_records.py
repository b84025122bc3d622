"""Makes the records of gradients and of changed parameters and buffers, with their statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy_wrapper.events import Gradient, NonFinite, Update
from proxy_wrapper.levels import INFO
from proxy_wrapper.pending import PendingNonFinite, PendingStatistics
from proxy_wrapper.statistics import summarize, unobserved
from proxy_wrapper.value_marks import data_ptr_of, version_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from proxy_wrapper.registry import StateEntry
    from proxy_wrapper.statistics import PendingOr
    from proxy_wrapper.tracer import Tracer


class StateRecords:
    """Makes `Gradient`, `Update` and `NonFinite` events of the tensors that it is given."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def gradients(self, states: Sequence[tuple[StateEntry, torch.Tensor]], location: int) -> list[Gradient]:
        """The gradients that parameters have now, those that are not watched left out, as events not yet sent."""
        tracer = self._tracer
        watched = [(state, tensor) for state, tensor in states if state.watched]
        with unobserved() as readable:
            gradients = [gradient_of(tensor) for _, tensor in watched]
            statistics = summarize(gradients if readable else [None] * len(gradients))
        now, step, thread, stage = tracer.now_us(), tracer.step, tracer.thread.number, tracer.thread.stage
        return [
            Gradient(now, step, state.holder.id, location, thread, stage, state.id, numbers)  # type: ignore[arg-type]
            for (state, _), numbers in zip(watched, statistics, strict=True)
        ]

    def send_gradients(self, gradients: Sequence[Gradient]) -> None:
        """Send what `gradients` gave back, and say which is the first with a non-finite value."""
        find = self._tracer.registry.state.get
        for event in gradients:
            state = find(event.tensor)
            if state is None:
                continue
            if state.holder.configured_level <= INFO:
                state.holder.channel.emit(event, event.location)
            tensor = state.tensor()
            if tensor is not None and event.statistics is not None:
                self._check(state, "gradient", tensor, event.statistics, event.location)

    def record_updates(self, changed: Sequence[tuple[StateEntry, torch.Tensor, str]], location: int) -> None:
        """Record tensors that have, or may have, changed, each with the cause (see `events.Update`).

        A step that was not recorded at its time is recorded under its own number.
        """
        tracer = self._tracer
        with unobserved() as readable:
            statistics = summarize([tensor if readable else None for _, tensor, _ in changed])
            now, thread, stage = tracer.now_us(), tracer.thread.number, tracer.thread.stage
            for (state, tensor, cause), numbers in zip(changed, statistics, strict=True):
                version = version_of(tensor)
                has_same_values = numbers is not None and numbers == state.statistics
                if cause == "data":
                    if has_same_values or numbers is None:
                        self._note(state, tensor, version, numbers)
                        continue
                    state.bypasses_version = True
                elif cause == "step" and version == state.version and has_same_values:
                    cause = "unchanged"  # noqa: PLW2901
                words = ""
                if cause == "replaced":
                    words = tracer.describer.describe(tensor)
                    tracer.definitions.define_placements(state, tensor)
                step = tracer.step if state.unrecorded_step < 0 else state.unrecorded_step
                self._note(state, tensor, version, numbers)
                if state.holder.configured_level <= INFO:
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
        state.unrecorded_step = -1

    def _check(self, state: StateEntry, where: str, tensor: torch.Tensor, numbers: PendingOr, location: int) -> None:
        """Say so at the first non-finite value of this tensor, or of its gradient."""
        if numbers is None or where in state.has_been_nonfinite:
            return
        if isinstance(numbers, PendingStatistics):
            count: Any = PendingNonFinite(numbers)
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


def gradient_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The gradient that has been summed up in a leaf; None for one without, and for what is no leaf."""
    return tensor.grad if tensor.is_leaf else None
