"""FLOPs of one operation, counted in three ways at once: what is wanted is said only after the run."""

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

- `torch`: by the formulas of `torch.utils.flop_counter`: two for a multiply-add, of products of matrices, convolutions
  and attention.
- `corrected`: by the same, but for attention on the CPU, which they leave out, and the backward pass of convolutions
  with groups, which they count as if there were none.
- `siu`: one for a multiply-add, and others of the operations that those leave out.
"""

CONVENTIONS: Final[tuple[Convention, ...]] = ("torch", "corrected", "siu")

_TENSOR: Final = torch._C.TensorBase
_aten: Final = torch.ops.aten
_OF_SHAPES: Final = flop_counter.flop_registry[_aten.mm].__code__
"""The code of all formulas that are given shapes, behind which torch hides those functions that are given them."""


class FlopCounts(NamedTuple):
    """FLOPs of a call in each way of counting; None where that has no formula for it."""

    torch: int | None
    corrected: int | None
    siu: int | None

    def by(self, convention: Convention) -> int | None:
        """Those in one way of counting."""
        return self[CONVENTIONS.index(convention)]


UNKNOWN: Final = FlopCounts(None, None, None)
FREE: Final = FlopCounts(0, 0, 0)

if TYPE_CHECKING:
    Formula = Callable[[tuple[Any, ...], dict[str, Any], Any], FlopCounts]


def formula_of(operation: Any) -> Formula:
    """What counts the FLOPs of a call of `operation`, from its arguments, those by keyword, and its result."""
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
        # By what is saved, it is twice the forward pass: two products of matrices for each one there.
        return _of_cpu_attention(1, 2)
    if computes_nothing(operation):
        return lambda _args, _kwargs, _out: FREE
    rule = siu_rule(operation)
    if rule is None:
        return lambda _args, _kwargs, _out: UNKNOWN
    return lambda args, kwargs, out: FlopCounts(None, None, rule(args, kwargs, out))


def _count(formula: Callable[..., int], args: Any, kwargs: Any, out: Any) -> int:
    """What a formula of torch's registry gives. Those of shapes are called without their `tree_map`, which is slow."""
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
        # Those of torch's own count a multiply-add as two. What others count, they say themselves.
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
    """`first` is where the query is among the arguments, with key and value behind it."""

    def count(args: tuple[Any, ...], _kwargs: dict[str, Any], _out: Any) -> FlopCounts:
        query, key, value = (each.shape for each in args[first : first + 3])
        flops = times * flop_counter.sdpa_flop_count(query, key, value)
        return FlopCounts(None, flops, flops // 2)

    return count
