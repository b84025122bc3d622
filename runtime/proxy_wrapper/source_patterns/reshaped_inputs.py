"""Finds views of the input of a model that give it its own sizes in another order.

`images.view(-1, 3, 32, 32)` of a batch of shape (64, 32, 32, 3) has the shape of the permuted batch, but moves no
element. The view may be in the program, before the model is called, or at the top of the model's `forward`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.source_patterns.permuted_sizes import view_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import torch

_FEWEST: Final = 3


def permuted_sizes_of(before: Sequence[int], after: Sequence[int]) -> bool:
    """Whether one shape has the sizes of another in another order. The first dimension, the batch, is not compared."""
    first, second = ([size for size in sizes[1:] if size != 1] for sizes in (before, after))
    return len(before) == len(after) >= _FEWEST and first != second and sorted(first) == sorted(second)


def is_permuted_view(tensor: torch.Tensor, base: torch.Tensor) -> bool:
    """Whether a tensor is a view of contiguous memory with the sizes of its base in another order.

    A transposed tensor is not contiguous, unless only dimensions of size 1 have moved.
    """
    return permuted_sizes_of(base.shape, tensor.shape) and tensor.is_contiguous() and base.is_contiguous()


class Reshaped(NamedTuple):
    """A line that views an argument, and the sizes before and after, without that of the batch."""

    line: int
    before: Sequence[int]
    after: Sequence[int]


def reshaped_inputs(forward: ast.FunctionDef, shapes: Mapping[str, Sequence[int]]) -> Iterator[Reshaped]:
    """The lines of a `forward` that view an argument with its own sizes in another order.

    Args:
        forward: the syntax of the function.
        shapes: the shapes of its arguments.
    """
    stores = [node for node in ast.walk(forward) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    for call in ast.walk(forward):
        viewed, given = view_of(call) if isinstance(call, ast.Call) else (None, ())
        if not isinstance(viewed, ast.Name) or viewed.id not in shapes or len(given) < _FEWEST:
            continue
        if any(each.id == viewed.id and each.lineno < viewed.lineno for each in stores):
            continue
        sizes = [each.value for each in given[1:] if isinstance(each, ast.Constant) and type(each.value) is int]
        if len(sizes) == len(given) - 1 and permuted_sizes_of(shapes[viewed.id], [0, *sizes]):
            yield Reshaped(viewed.lineno, shapes[viewed.id][1:], sizes)
