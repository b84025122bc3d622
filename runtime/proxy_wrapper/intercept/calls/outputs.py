"""Looks for the first non-finite value in module outputs and in losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from proxy_wrapper.code_lines.nan_variables import origin_of_nan
from proxy_wrapper.code_lines.operation_lines import operation_line
from proxy_wrapper.events import NonFinite, Statistics
from proxy_wrapper.intercept.loss.losses import forward_of
from proxy_wrapper.levels import WARNING
from proxy_wrapper.loss_graph.operations import without_result
from proxy_wrapper.program_code.computed_lines import computed_at
from proxy_wrapper.values.pending import PendingNonFinite, PendingStatistics
from proxy_wrapper.values.statistics import count_nonfinite, has_values, is_certainly_finite, unobserved
from proxy_wrapper.values.torch_functions import is_complex, is_floating_point

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.program_code.called_functions import Body
    from proxy_wrapper.tracer import Tracer
    from proxy_wrapper.values.pending import Pending, PendingCount
    from proxy_wrapper.values.statistics import PendingOr


class Outputs:
    """Creates `NonFinite` events for module outputs and for losses."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._has_loss_been_nonfinite = False
        self._has_reported = False

    def check(
        self,
        entry: ModuleEntry,
        output: torch.Tensor,
        thread: ThreadState,
        statistics: PendingOr = None,
    ) -> None:
        """Report an output of the module of `entry` if it has the module's first non-finite value.

        Call it where no function mode is active, for tensors that may be non-finite.

        Args:
            entry: the module's entry.
            output: the output.
            thread: the thread that called the module.
            statistics: those of the output, if known.
        """
        count: int | Pending
        if isinstance(statistics, PendingStatistics):
            count = PendingNonFinite(statistics)
        else:
            count = statistics.nonfinite if isinstance(statistics, Statistics) else _count(output)
        if count:
            entry.has_been_nonfinite = isinstance(count, int)
            locator = self._tracer.locator
            location = locator.locate(4)
            event = self._event(entry.id, location, "output", count, output, thread)
            if self._is_first(count):
                frame = locator.user_frame(4, is_ending=True)
                origin = None if frame is None else origin_of_nan(frame, locator.is_user_code)
                if origin is not None:
                    computed = locator.computed(*origin)
                    event = replace(event, computed=computed, variable=origin.assigned.name)
                else:
                    event = self._with_operation(event, output, [forward_of(entry)])
                if event.computed:
                    entry.channel.define_location(event.computed)
            entry.channel.emit(event, location)

    def check_loss(self, tensors: Sequence[torch.Tensor], location: int) -> None:
        """Report the root of a backward pass at `location` if it is the first non-finite one of this process."""
        tracer = self._tracer
        for tensor in tensors:
            if self._has_loss_been_nonfinite or is_certainly_finite(tensor):
                continue
            count = _count(tensor)
            if count:
                self._has_loss_been_nonfinite = isinstance(count, int)
                event = self._event(0, location, "loss", count, tensor, tracer.thread)
                frame = tracer.locator.user_frame() if self._is_first(count) else None
                if frame is not None:
                    origin = origin_of_nan(frame, tracer.locator.is_user_code)
                    if origin is None:
                        event = replace(event, computed=tracer.locator.computed(frame))
                        starts = [computed_at(frame, tracer.locator.is_user_code).body]
                        event = self._with_operation(event, tensor, starts)
                    else:
                        computed = tracer.locator.computed(*origin)
                        event = replace(event, computed=computed, variable=origin.assigned.name)
                also = (event.computed,) if event.computed else ()
                tracer.broadcast(event, location, level=WARNING, also=also)

    def _with_operation(self, event: NonFinite, tensor: torch.Tensor, starts: Sequence[Body | None]) -> NonFinite:
        """The event with the operation that made a tensor non-finite, if its graph tells, and with its only line.

        Args:
            event: the event.
            tensor: the tensor.
            starts: the functions that computed it.
        """
        with unobserved() as readable:
            operation = without_result(tensor.grad_fn) if readable and tensor.grad_fn is not None else ""
        if not operation:
            return event
        locator = self._tracer.locator
        found = operation_line([each for each in starts if each is not None], operation, locator.is_user_code)
        return replace(event, operation=operation, computed=locator.line(found) or event.computed)

    def _is_first(self, count: int | Pending) -> bool:
        """Whether this is the first report: later ones may only follow from it. The origin is searched for it alone."""
        is_first = isinstance(count, int) and not self._has_reported
        self._has_reported = True
        return is_first

    def _event(
        self,
        module: int,
        location: int,
        where: str,
        count: int | Pending,
        tensor: torch.Tensor,
        thread: ThreadState,
    ) -> NonFinite:
        tracer = self._tracer
        return NonFinite(
            tracer.now_us(),
            tracer.step,
            module,
            location,
            thread.number,
            thread.stage,
            where,
            0,
            count,  # type: ignore[arg-type]
            tracer.describer.describe(tensor),
        )


def is_known_finite(statistics: PendingOr) -> bool:
    """Whether statistics are available and count no NaN or infinity."""
    return type(statistics) is Statistics and not statistics.nonfinite


def _count(tensor: torch.Tensor) -> int | PendingCount:
    """How many elements are not finite; 0 for a tensor without readable or without floating-point values."""
    with unobserved() as readable:
        if not readable or not has_values(tensor) or not (is_floating_point(tensor) or is_complex(tensor)):
            return 0
        return count_nonfinite(tensor)
