"""Numbers on their way from an accelerator, which only the thread that writes the trace waits for."""

from __future__ import annotations

import torch

from proxy_wrapper.events import Statistics, as_number
from proxy_wrapper.torch_functions import convert, isfinite, total


class Pending:
    """The value of an event's field that is not known yet.

    No abstract base class: the writer asks of each record whether it holds one, and those answer slowly.
    """

    __slots__ = ()

    def resolve(self) -> Statistics | int:
        """Wait until the numbers have arrived. To be called on any thread but the training's."""
        raise NotImplementedError


class PendingStatistics(Pending):
    """Statistics still on their way from an accelerator. `resolve` waits for them; no tensor of the program is held."""

    __slots__ = ("_copy", "_row")

    def __init__(self, copy: HostCopy, row: int) -> None:
        self._copy = copy
        self._row = row

    def resolve(self) -> Statistics:
        """Wait until the numbers have arrived."""
        minimum, maximum, norm, nonfinite = self._copy.rows()[self._row]
        return Statistics(as_number(minimum), as_number(maximum), as_number(norm), int(nonfinite))


class PendingNonFinite(Pending):
    """The count of non-finite elements in statistics that are still on their way."""

    __slots__ = ("_statistics",)

    def __init__(self, statistics: PendingStatistics) -> None:
        self._statistics = statistics

    def resolve(self) -> int:
        """Wait until the number has arrived."""
        return self._statistics.resolve().nonfinite


class PendingCount(Pending):
    """A count of non-finite elements still on its way from an accelerator."""

    __slots__ = ("_copy",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self._copy = HostCopy(convert(total(~isfinite(tensor)), torch.float64).reshape(1, 1))

    def resolve(self) -> int:
        """Wait until the number has arrived."""
        return int(self._copy.rows()[0][0])


class HostCopy:
    """A table of numbers that a device is copying into pinned memory of the host, behind the kernels before it."""

    def __init__(self, table: torch.Tensor) -> None:
        """Start the copy of `table`, (n, k) float64 on an accelerator, without waiting for it."""
        self._host = torch.empty(table.shape, dtype=table.dtype, device="cpu", pin_memory=table.is_cuda)
        self._host.copy_(table, non_blocking=True)
        self._event: torch.Event | None = None
        if table.is_cuda:
            self._event = torch.Event(table.device)
            self._event.record(torch.cuda.current_stream(table.device))
        self._rows: list[list[float]] | None = None

    def rows(self) -> list[list[float]]:
        """The numbers, once they are there."""
        if self._rows is None:
            if self._event is not None:
                self._event.synchronize()
            self._rows = self._host.tolist()
        return self._rows
