"""Observes each torch operation below autograd, on the thread of a block and on those of autograd's engine."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch
from torch._C import DisableTorchFunction
from torch.utils._python_dispatch import TorchDispatchMode

from proxy_wrapper.intercept.attaching.call_sites import hide_frames

if TYPE_CHECKING:
    from collections.abc import Mapping

_COMPOSITE: Final = torch._C.DispatchKey.CompositeImplicitAutograd
_PLAIN: Final = (torch.Tensor, torch.nn.Parameter)
_NO_KEYWORDS: Final[dict[str, Any]] = {}
_sequence: Final = torch._C._autograd._get_sequence_nr
_DEVICE: Final = torch.ops.prim.device.default
_ASKED_OF_TENSORS: Final = frozenset(
    (
        *("aten::sym_is_contiguous", "aten::is_contiguous", "aten::is_strides_like_format", "aten::size"),
        *("aten::is_non_overlapping_and_dense", "aten::sym_size", "aten::stride", "aten::sym_stride"),
        *("aten::storage_offset", "aten::sym_storage_offset", "aten::numel", "aten::sym_numel", "aten::dim"),
        "prim::layout",
    )
)
"""Queries that tensor subclasses answer themselves."""


class CallsSeen(Protocol):
    """Is notified of calls."""

    def called(
        self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, duration_ns: int, sequence: int
    ) -> None:
        """Note a call of `operation`, made when autograd had counted `sequence` nodes."""

    def fail(self, error: Exception) -> None:
        """Note that `called` raised `error`."""


class CallMode(TorchDispatchMode):
    """Notifies `seen` of each call. It changes none, and decomposes none that torch would not."""

    supports_higher_order_operators = True

    def __init__(self, seen: CallsSeen) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen = seen
        self._composite: dict[tuple[Any, str], bool] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: the wrapper that torch would add around the method below costs more than the method."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """The result of `func`."""
        named: dict[str, Any] = kwargs or _NO_KEYWORDS  # type: ignore[assignment]
        if types and func.name() in _ASKED_OF_TENSORS:
            return NotImplemented
        if func is _DEVICE:  # Asked for fake tensors before each operation.
            return func(*args, **named)
        sequence = _sequence()
        began = perf_counter_ns()
        try:
            if torch.is_inference_mode_enabled() and self._is_composite(func, args):
                with self:
                    return func._op_dk(_COMPOSITE, *args, **named)
            out = func(*args, **named)
        except BaseException as error:
            hide_frames(error, 2)
            raise
        duration_ns = perf_counter_ns() - began
        try:
            with DisableTorchFunction():
                self._seen.called(func, args, named, out, duration_ns, sequence)
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            self._seen.fail(error)
        return out

    def _is_composite(self, operation: Any, args: tuple[Any, ...]) -> bool:
        """Whether torch decomposes a call here that it has usually decomposed above autograd.

        In inference mode, it does so below this mode. Doing it a moment earlier makes the parts visible.
        """
        tensor = next((each for each in args if isinstance(each, torch.Tensor)), None)
        if tensor is None or type(tensor) not in _PLAIN or tensor.layout is not torch.strided:
            return False
        key = operation, tensor.device.type
        if key not in self._composite:
            has = torch._C._dispatch_has_kernel_for_dispatch_key
            self._composite[key] = (
                isinstance(operation, torch._ops.OpOverload)
                and has(operation.name(), "CompositeImplicitAutograd")
                and not has(operation.name(), {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta"}.get(key[1], "CPU"))
            )
        return self._composite[key]
