"""FLOPs of one operation, counted in three ways at once, because the convention is chosen after the run."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import torch
from torch.utils import flop_counter
from torch.utils._pytree import tree_map

from proxy_views.profile.siu_rules import computes_nothing, siu_rule

if TYPE_CHECKING:
    from collections.abc import Callable

Convention: TypeAlias = Literal["torch", "corrected", "siu"]
"""How FLOPs are counted.

- `torch`: by the formulas of `torch.utils.flop_counter`: 2 per multiply-add, for matrix products, convolutions and
  attention.
- `corrected`: likewise, plus attention on the CPU, which those omit, and with the right count for the backward pass of
  grouped convolutions, for which those ignore the groups.
- `siu`: 1 per multiply-add, and also the other operations, which those omit.
"""

CONVENTIONS: Final[tuple[Convention, ...]] = ("torch", "corrected", "siu")

_TENSOR: Final = torch._C.TensorBase
_aten: Final = torch.ops.aten
_OF_SHAPES: Final = flop_counter.flop_registry[_aten.mm].__code__
"""The code of torch's wrapper around all formulas that take shapes."""


class FlopCounts(NamedTuple):
    """FLOPs of a call by each convention; None if that has no formula for it."""

    torch: int | None
    corrected: int | None
    siu: int | None

    def by(self, convention: Convention) -> int | None:
        """The FLOPs by one convention."""
        return self[CONVENTIONS.index(convention)]


UNKNOWN: Final = FlopCounts(None, None, None)
FREE: Final = FlopCounts(0, 0, 0)

if TYPE_CHECKING:
    Formula = Callable[[tuple[Any, ...], dict[str, Any], Any], FlopCounts]


def formula_of(operation: Any) -> Formula:
    """The function that counts the FLOPs of a call of `operation` from its args, kwargs and result."""
    packet = getattr(operation, "_overloadpacket", operation)
    return _made(operation, packet, flop_counter.flop_registry.get(packet))


@lru_cache(maxsize=1 << 12)
def _made(operation: Any, packet: Any, registered: Callable[..., int] | None) -> Formula:
    """The formula of an operation for which torch's registry has `registered`."""
    if packet is _aten.convolution_backward and registered is not None:
        return _of_convolution_backward(registered)
    if registered is not None:
        return _of_registered(registered)
    if packet is getattr(_aten, "_scaled_dot_product_flash_attention_for_cpu", None):
        return _of_cpu_attention(0, 1)
    if packet is getattr(_aten, "_scaled_dot_product_flash_attention_for_cpu_backward", None):
        # Judging by what is saved, it takes twice the forward pass: two matrix products for each one there.
        return _of_cpu_attention(1, 2)
    if computes_nothing(operation):
        return lambda _args, _kwargs, _out: FREE
    rule = siu_rule(operation)
    if rule is None:
        return lambda _args, _kwargs, _out: UNKNOWN
    return lambda args, kwargs, out: FlopCounts(None, None, rule(args, kwargs, out))


def _count(formula: Callable[..., int], args: Any, kwargs: Any, out: Any) -> int:
    """The result of a formula in torch's registry. Formulas of shapes are called without their slow `tree_map`."""
    if getattr(formula, "__code__", None) is not _OF_SHAPES:
        return formula(*args, **kwargs, out_val=out)
    shapes = [_shape(each) for each in args]
    named = {key: _shape(each) for key, each in kwargs.items()} if kwargs else kwargs
    return formula.__wrapped__(*shapes, **named, out_shape=_shape(out))  # type: ignore[attr-defined,no-any-return]


def _shape(value: Any) -> Any:
    if isinstance(value, _TENSOR):
        return value.shape
    kind = type(value)
    if kind is list or kind is tuple:
        return kind(map(_shape, value))
    return tree_map(flop_counter.get_shape, value) if kind is dict else value


def _of_registered(formula: Callable[..., int]) -> Formula:
    is_torchs = getattr(formula, "__module__", "") == flop_counter.__name__

    def count(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> FlopCounts:
        flops = _count(formula, args, kwargs, out)
        # Torch's own formulas count 2 per multiply-add. Other formulas define their own unit.
        return FlopCounts(flops, flops, flops // 2 if is_torchs else flops)

    return count


def _of_convolution_backward(formula: Callable[..., int]) -> Formula:
    def count(args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> FlopCounts:
        flops = corrected = _count(formula, args, kwargs, out)
        groups, mask = args[9], args[10]
        if groups > 1 and mask[1]:
            given = (*args[:10], [False, True, False], *args[11:])
            of_weight = _count(formula, given, kwargs, out)
            corrected = flops - of_weight + of_weight // groups
        return FlopCounts(flops, corrected, corrected // 2)

    return count


def _of_cpu_attention(first: int, times: int) -> Formula:
    """`first` is the position of the query among the arguments, followed by key and value."""

    def count(args: tuple[Any, ...], _kwargs: dict[str, Any], _out: Any) -> FlopCounts:
        query, key, value = (each.shape for each in args[first : first + 3])
        flops = times * flop_counter.sdpa_flop_count(query, key, value)
        return FlopCounts(None, flops, flops // 2)

    return count
