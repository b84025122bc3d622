"""Whether two values are the same to the last bit, and in what they differ."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map


@dataclass(frozen=True, eq=False)
class TensorBits:
    """A tensor as it was when it was looked at."""

    traits: dict[str, str]
    """All that can be told of it but its elements, in words."""
    patterns: list[torch.Tensor]
    """The bit patterns of all elements: one uint8 vector for each strided tensor that it is made of."""


def frozen(value: Any) -> Any:
    """`value`, a pytree, with a `TensorBits` in the place of each tensor: later changes do not reach it."""
    return tree_map(lambda leaf: tensor_bits(leaf) if isinstance(leaf, torch.Tensor) else leaf, value)


def tensor_bits(tensor: torch.Tensor) -> TensorBits:
    """What two equal tensors have in common: type, dtype, shape, strides, flags and every bit of every element."""
    names = ("dtype", "layout", "device", "requires_grad", "is_leaf", "is_quantized", "is_nested")
    traits = {name: str(getattr(tensor, name)) for name in names}
    traits |= {"type": type(tensor).__name__, "conjugates": str(tensor.is_conj()), "negates": str(tensor.is_neg())}
    parts = _parts(tensor)
    traits["shapes"] = str([list(part.shape) for part in parts])
    traits["strides"] = str([part.stride() for part in parts])
    return TensorBits(traits, [_patterns(part) for part in parts])


def difference(expected: Any, actual: Any) -> str | None:
    """In what `actual` differs from `expected`, in words; None if in nothing. Both are `frozen`.

    Two NaNs are the same only with the same payload, and 0.0 is not -0.0.
    """
    expected_leaves, expected_shape = tree_flatten(expected)
    actual_leaves, actual_shape = tree_flatten(actual)
    if expected_shape != actual_shape:
        return f"{expected_shape} became {actual_shape}"
    for number, (before, after) in enumerate(zip(expected_leaves, actual_leaves, strict=True)):
        found = _difference_of_leaves(before, after)
        if found is not None:
            return f"leaf {number}: {found}"
    return None


def _difference_of_leaves(before: Any, after: Any) -> str | None:
    if type(before) is not type(after):
        return f"{type(before).__name__} became {type(after).__name__}"
    if isinstance(before, TensorBits):
        return _difference_of_tensors(before, after)
    if isinstance(before, float):
        same = struct.pack("d", before) == struct.pack("d", after)
    elif isinstance(before, complex):
        same = struct.pack("dd", before.real, before.imag) == struct.pack("dd", after.real, after.imag)
    elif not _says_what_is_equal(before):
        return None  # Two objects of a class that says nothing of equality: each run made its own.
    else:
        same = bool(before == after)
    return None if same else f"{before!r} became {after!r}"


def _says_what_is_equal(value: object) -> bool:
    return any("__eq__" in vars(base) for base in type(value).__mro__[:-1])


def _difference_of_tensors(before: TensorBits, after: TensorBits) -> str | None:
    for name, trait in before.traits.items():
        if trait != after.traits[name]:
            return f"{name} {trait} became {after.traits[name]}"
    for old, new in zip(before.patterns, after.patterns, strict=True):
        if not torch.equal(old, new):
            apart = int((old != new).sum())
            return f"{apart} of {len(old)} bytes of a {before.traits['dtype']} {before.traits['shapes']} differ"
    return None


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The strided tensors that `tensor` is made of."""
    tensor = tensor.detach()
    if tensor.is_nested:
        return list(tensor.unbind())
    if tensor.is_quantized:
        scales = tensor.q_scale() if tensor.qscheme() is torch.per_tensor_affine else tensor.q_per_channel_scales()
        return [tensor.int_repr(), torch.as_tensor(scales)]
    if tensor.layout is torch.sparse_coo:
        return [tensor._values(), tensor._indices(), torch.tensor([tensor.is_coalesced(), *tensor.shape])]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.values(), tensor.crow_indices(), tensor.col_indices(), torch.tensor(tensor.shape)]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.values(), tensor.ccol_indices(), tensor.row_indices(), torch.tensor(tensor.shape)]
    if tensor.layout is not torch.strided:
        return [tensor.to_dense()]
    return [tensor]


def _patterns(tensor: torch.Tensor) -> torch.Tensor:
    """The bit patterns of all elements, uint8; nothing for a tensor without values (meta)."""
    if tensor.is_meta:
        return torch.empty(0, dtype=torch.uint8)
    values = tensor.resolve_conj().resolve_neg().reshape(-1)
    return torch.clone(values, memory_format=torch.contiguous_format).view(torch.uint8)
