"""Classifies calls of functions for a graph: computations, and reads whose result Python uses."""

from __future__ import annotations

import types
from functools import cache
from typing import Any, Final

READ: Final = 1
"""It returns no tensor and changes nothing. Its result is a constant of the program, not a value of the graph."""
SIZE: Final = 2
"""It returns sizes, which stay in the graph."""
VALUE: Final = 3
"""It returns values of a tensor to Python."""
SWITCH: Final = 4
"""It switches gradients or autocast. The state is recorded with each call that runs under it."""
ITERATOR: Final = 5
"""It returns an iterator over a tensor."""

_BUILTIN: Final = frozenset(
    {types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType}
)
"""Types of functions written in C."""

_READS: Final = (
    *("dim", "ndimension", "is_contiguous", "is_floating_point", "is_complex", "is_signed", "is_inference", "is_conj"),
    *("is_neg", "is_pinned", "is_shared", "is_same_size", "element_size", "data_ptr", "get_device", "storage_offset"),
    *("untyped_storage", "type", "__repr__", "__format__", "__hash__", "__dir__", "__deepcopy__", "is_set_to"),
)
_VALUES: Final = (
    *("__bool__", "__int__", "__float__", "__complex__", "__index__", "__len__", "__contains__", "__array__"),
    *("item", "tolist", "numpy", "is_nonzero", "equal", "allclose"),
)
_SIZES: Final = ("size", "numel", "nelement", "stride")
_ATTRIBUTES: Final = (
    *("dtype", "device", "ndim", "layout", "requires_grad", "is_leaf", "grad_fn", "output_nr", "name", "names"),
    *("is_cuda", "is_cpu", "is_sparse", "is_sparse_csr", "is_quantized", "is_meta", "is_mps", "is_nested", "is_mkldnn"),
    *("is_xpu", "is_xla", "is_ipu", "is_hpu", "is_mtia", "is_vulkan", "is_maia", "itemsize", "nbytes", "_version"),
    *("retains_grad", "_backward_hooks", "_post_accumulate_grad_hooks", "volatile"),
)


def kind_of(function: Any) -> int:
    """Which of the kinds above a call of `function` is; 0 for a computation."""
    return _kind_of_builtin(function) if type(function) in _BUILTIN else _kind_by_names(function)


@cache
def _kind_of_builtin(function: Any) -> int:
    """Cached across recordings: functions written in C are torch's, and are never freed."""
    return _kind_by_names(function)


def _kind_by_names(function: Any) -> int:
    name = getattr(function, "__name__", "")
    if name == "__get__":
        owner = function.__self__
        attribute = getattr(owner, "__name__", None) or getattr(getattr(owner, "fget", None), "__name__", "")
        return SIZE if attribute == "shape" else READ if attribute in _ATTRIBUTES else 0
    if name == "__iter__":
        return ITERATOR
    if name in _VALUES:
        return VALUE
    is_method = hasattr(function, "__objclass__") or getattr(function, "__qualname__", "").startswith("Tensor.")
    if name in _SIZES and is_method:
        return SIZE
    if name in _READS:
        return READ
    module = str(getattr(function, "__module__", ""))
    if module.startswith("torch._ops.profiler"):
        return READ
    return SWITCH if name in ("_set_grad_enabled", "_enter_autocast", "_exit_autocast", "set_grad_enabled") else 0
