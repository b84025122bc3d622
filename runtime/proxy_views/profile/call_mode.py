"""Sees each operation that torch runs, below autograd, on the thread of a block and on those of autograd's engine."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch
from torch._C import DisableTorchFunction
from torch.utils._python_dispatch import TorchDispatchMode

from proxy_wrapper.intercept.call_sites import hide_frames

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
"""What a tensor of a class of its own is asked, and answers itself."""


class CallsSeen(Protocol):
    """Is told of calls."""

    def called(
        self, operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, duration_ns: int, sequence: int
    ) -> None:
        """`operation` was called, when autograd had counted `sequence` nodes."""

    def fail(self, error: Exception) -> None:
        """`called` has raised `error`."""


class CallMode(TorchDispatchMode):
    """Tells `seen` of each call. It changes none, and takes none apart that torch would not."""

    supports_higher_order_operators = True

    def __init__(self, seen: CallsSeen) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seen = seen
        self._composite: dict[tuple[Any, str], bool] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """No: what torch would wrap the method below in costs more than the rest of it."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """What `func` gives."""
        named: dict[str, Any] = kwargs or _NO_KEYWORDS  # type: ignore[assignment]
        if types and func.name() in _ASKED_OF_TENSORS:
            return NotImplemented
        if func is _DEVICE:  # Fake tensors are asked before each operation.
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
        """Whether torch makes a call of several others here, which above autograd it has done before.

        In inference mode it does so below this mode. To have it do the same a moment earlier shows them.
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
