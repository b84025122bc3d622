"""The FLOPs of one call, without a block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from proxy_views.profile.flop_totals import FlopTotals
from proxy_views.profile.profiler import Profiler

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_views.profile.flops import Convention


def flop_count(f: Callable[..., Any], /, *args: Any, flops: Convention = "corrected", **kwargs: Any) -> FlopTotals:
    """The FLOPs of `f(*args, **kwargs)`, a module or a function, and of the gradients of its outputs.

    `f` is really called, once: running statistics and the random state change. No gradient is stored anywhere.

    Args:
        f: the module or function.
        args: its positional arguments.
        flops: how FLOPs are counted (see `Convention`).
        kwargs: its keyword arguments.

    Returns:
        The FLOPs of the forward and of the backward pass; the latter are 0 if no output has a gradient.
    """
    profiler = Profiler(f if isinstance(f, torch.nn.Module) else None)
    profiler.begin()
    try:
        output = f(*args, **kwargs)
        _compute_gradients(profiler, output)
    finally:
        profiler.end()
    profile = profiler.profile(flops)
    return FlopTotals(profile.forward_flops, profile.backward_flops)


def _compute_gradients(profiler: Profiler, output: Any) -> None:
    """Have autograd compute the gradients of all tensors in `output` with respect to its leaves."""
    roots = [each for each in tree_leaves(output) if isinstance(each, torch.Tensor) and each.grad_fn is not None]
    leaves = _leaves_of(roots)
    if not roots or not leaves:
        return
    with profiler.paused():
        ones = [torch.ones_like(each) for each in roots]
    torch.autograd.grad(roots, leaves, ones, allow_unused=True)


def _leaves_of(roots: list[torch.Tensor]) -> list[torch.Tensor]:
    """The leaves in which gradients would accumulate."""
    found: dict[int, torch.Tensor] = {}
    waiting, seen = [each.grad_fn for each in roots], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None:
            found[id(variable)] = variable
        waiting += [following for following, _ in node.next_functions]
    return list(found.values())
