"""Numbers on their way from an accelerator. Only the thread that writes the trace waits for them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from proxy_wrapper.events import Statistics, as_number
from proxy_wrapper.process.signal_handlers import comes_from_signal_handler
from proxy_wrapper.values.fingerprint import as_text, of_weighted_sum
from proxy_wrapper.values.torch_functions import concatenate, contiguous, convert, copy_into, tolist, view

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_wrapper.events import Number

_BITS: Final = {torch.float64: torch.int64, torch.float32: torch.int32}
"""The integer dtype with as many bits as each floating-point dtype."""


class NumbersLostError(Exception):
    """A device did not deliver the requested numbers, because it failed or had no memory left."""


class Pending:
    """The value of an event's field that is not known yet.

    Not an abstract base class, because the writer calls `isinstance` for each record, which would be slow.
    """

    __slots__ = ()

    def resolve(self) -> Statistics | Number | bool | None:
        """Wait until the numbers have arrived; None if there are none. Must not be called on the training thread.

        Raises:
            NumbersLostError: if they will never arrive.
        """
        raise NotImplementedError


class PendingStatistics(Pending):
    """Statistics still on their way from an accelerator. No tensor of the program is kept alive."""

    __slots__ = ("_copy", "_row", "_size_bytes")

    def __init__(self, copy: HostCopy, row: int, size_bytes: int) -> None:
        """Refer to a row of `copy`, for a tensor of this size (see `size_in_bytes`)."""
        self._copy = copy
        self._row = row
        self._size_bytes = size_bytes

    @property
    def arrived(self) -> Statistics | None:
        """The statistics, if the numbers have already been waited for; else None."""
        rows = self._copy.arrived
        return None if rows is None else self._statistics(rows)

    def resolve(self) -> Statistics:
        """Wait until the numbers have arrived."""
        return self._statistics(self._copy.rows())

    def _statistics(self, rows: Rows) -> Statistics:
        minimum, maximum, norm = rows.floats[self._row]
        nonfinite, weighted_sum = rows.integers[self._row]
        bits = as_text(of_weighted_sum(weighted_sum, self._size_bytes))
        return Statistics(as_number(minimum + 0.0), as_number(maximum + 0.0), as_number(norm), nonfinite, bits)


class PendingNonFinite(Pending):
    """The count of non-finite elements in pending statistics."""

    __slots__ = ("_statistics",)

    def __init__(self, statistics: PendingStatistics) -> None:
        self._statistics = statistics

    def resolve(self) -> int:
        """Wait until the number has arrived."""
        return self._statistics.resolve().nonfinite


class PendingClearing(Pending):
    """Whether a gradient was cleared before a step, if its values are still on their way from an accelerator."""

    __slots__ = ("_left", "_now")

    def __init__(self, left: Statistics | PendingStatistics, now: Statistics | PendingStatistics | None) -> None:
        """Compare the gradient that a backward pass `left` with what the step found `now`."""
        self._left = left
        self._now = now

    def resolve(self) -> bool:
        """Wait until the numbers have arrived."""
        left, now = (
            each.resolve() if isinstance(each, PendingStatistics) else each for each in (self._left, self._now)
        )
        return is_nothing(now) and not is_nothing(left)


def was_cleared(
    left: Statistics | PendingStatistics, now: Statistics | PendingStatistics | None
) -> bool | PendingClearing:
    """Whether a gradient was cleared before a step.

    Args:
        left: the gradient left by the last backward pass that reached it.
        now: the gradient found by the step.
    """
    clearing = PendingClearing(left, now)
    return clearing if isinstance(left, PendingStatistics) or isinstance(now, PendingStatistics) else clearing.resolve()


def is_nothing(statistics: Statistics | None) -> bool:
    """Whether a gradient is missing or all zeros."""
    return statistics is None or statistics.minimum is None or statistics.minimum == 0 == statistics.maximum


class PendingCount(Pending):
    """A count of elements still on its way from an accelerator."""

    __slots__ = ("_copy",)

    def __init__(self, copy: HostCopy) -> None:
        """Refer to the only integer of `copy`."""
        self._copy = copy

    def resolve(self) -> int:
        """Wait until the number has arrived."""
        return self._copy.rows().integers[0][0]


class PendingConjunction(Pending):
    """Whether several counts, still on their way from an accelerator, are all non-zero."""

    __slots__ = ("_counts",)

    def __init__(self, counts: Sequence[PendingCount]) -> None:
        self._counts = counts

    def resolve(self) -> bool:
        """Wait until the numbers have arrived."""
        return all(count.resolve() for count in self._counts)


class PendingValue(Pending):
    """The value of a one-element tensor, still on its way from an accelerator."""

    __slots__ = ("_copy",)

    def __init__(self, copy: HostCopy) -> None:
        """Refer to the only floating-point number of `copy`."""
        self._copy = copy

    def resolve(self) -> Number:
        """Wait until the number has arrived."""
        return as_number(self._copy.rows().floats[0][0])


class Table(NamedTuple):
    """Numbers of several tensors on their device, one row per tensor.

    `floats` is (n, k) float64, or float32 if the device has no float64; or None. `integers` is (n, m) int64.
    """

    floats: torch.Tensor | None
    integers: torch.Tensor


class Rows(NamedTuple):
    """The numbers of a `Table` on the host; `floats` is empty if it had none."""

    floats: Sequence[Sequence[float]]
    integers: Sequence[Sequence[int]]


class HostCopy:
    """A table of numbers that a device is copying to host memory, after the kernels queued before it.

    Errors while computing or copying it must not reach the program. `rows` raises them when it is called.
    """

    def __init__(self, compute: Callable[[], Table]) -> None:
        """Start to compute the table on an accelerator and to copy it, without waiting for either."""
        self._rows: Rows | None = None
        self._transfer: _Transfer | None = None
        self._failure = ""
        try:
            table = compute()
            self._packing = _Packing.of(table.floats)
            self._transfer = _Transfer(self._packing.pack(table))
        except Exception as error:  # noqa: BLE001  Each device has errors of its own.
            self._fail(error)

    @property
    def has_failed(self) -> bool:
        """Whether it is already known that the numbers will not arrive."""
        return bool(self._failure)

    @property
    def arrived(self) -> Rows | None:
        """The numbers, if they have already been waited for."""
        return self._rows

    def rows(self) -> Rows:
        """Wait for the numbers, and return them.

        Raises:
            NumbersLostError: if they will never arrive, with the device's message.
        """
        if self._rows is None and self._transfer is not None:
            try:
                self._rows = self._packing.unpack(self._transfer.wait())
                self._transfer = None
            except Exception as error:  # noqa: BLE001
                self._fail(error)
        if self._rows is None:
            raise NumbersLostError(self._failure)
        return self._rows

    def _fail(self, error: Exception) -> None:
        """Keep only the message of `error`, because its traceback would keep tensors alive."""
        if comes_from_signal_handler(error):
            raise error
        self._transfer = None
        lines = str(error).strip().splitlines() or [""]
        self._failure = f"{type(error).__name__}: {lines[0]}"


class _Packing(NamedTuple):
    """The layout of a table in one integer tensor, which takes a single copy. In each row, floats come first."""

    floats: int
    dtype: torch.dtype

    @classmethod
    def of(cls, floats: torch.Tensor | None) -> _Packing:
        return cls(0, torch.float64) if floats is None else cls(floats.shape[1], floats.dtype)

    def pack(self, table: Table) -> torch.Tensor:
        """The table as (n, k + m) int64, with floats stored as their bits."""
        if table.floats is None:
            return table.integers
        bits = convert(view(table.floats, _BITS[self.dtype]), torch.int64)
        return concatenate((bits, table.integers), 1)

    def unpack(self, words: torch.Tensor) -> Rows:
        """The numbers in `words`, a host copy of a result of `pack`."""
        bits = contiguous(convert(words[:, : self.floats], _BITS[self.dtype]))
        return Rows(tolist(view(bits, self.dtype)) if self.floats else (), tolist(words[:, self.floats :]))


class _Transfer:
    """A tensor on its way to the host."""

    __slots__ = ("_device", "_event", "_tensor")

    def __init__(self, tensor: torch.Tensor) -> None:
        """Start the copy of `tensor`. On a device without events, which signal arrival, leave it there."""
        self._tensor = tensor
        self._device = tensor.device
        self._event: Any = None
        module = getattr(torch, self._device.type, None)
        make_event = getattr(module, "Event", None)
        if make_event is None:
            return
        # Other devices do not document pinned memory, or that it speeds up the copy.
        pins = self._device.type in ("cuda", "xpu")
        self._tensor = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu", pin_memory=pins)
        copy_into(self._tensor, tensor, non_blocking=True)
        self._event = make_event()
        current_stream = getattr(module, "current_stream", None)
        if current_stream is None:
            self._event.record()
        else:
            self._event.record(current_stream(self._device))

    def wait(self) -> torch.Tensor:
        """Wait for the tensor, and return it on the host."""
        module = getattr(torch, self._device.type, None)
        # A new thread's current device is the first one. Waiting there for another would allocate memory on the first.
        with getattr(module, "device", contextlib.nullcontext)(self._device):
            if self._event is not None:
                self._event.synchronize()
                return self._tensor
            synchronize = getattr(module, "synchronize", None)
            if synchronize is not None:  # Otherwise the copy might not wait for another thread's stream.
                synchronize()
            return convert(self._tensor, "cpu")
