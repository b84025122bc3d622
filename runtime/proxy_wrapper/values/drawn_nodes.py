"""Finds in an autograd graph values that `torch.normal` drew where a gradient was to reach its mean.

`torch.normal(mean, std)` has a gradient: it is zero. That is right where only the logarithm of the density of what was
drawn has a gradient, as in policies, and there the mean is subtracted from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_NORMAL: Final = frozenset({"NormalBackward1", "NormalBackward2", "NormalBackward3"})
_COMPARED: Final = frozenset(
    {
        "SubBackward0",
        "RsubBackward0",
        "RsubBackward1",
        "MseLossBackward0",
        "SmoothL1LossBackward0",
        "HuberLossBackward0",
    }
)
"""A policy subtracts its mean from what was drawn; a model that reads its own predictions compares them by a loss."""
_LIKE_VIEWS: Final = frozenset(
    {"ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "ExpandBackward0", "UnsqueezeBackward0"}
    | {"SqueezeBackward0", "SqueezeBackward1", "TBackward0", "TransposeBackward0", "ToCopyBackward0", "CloneBackward0"}
)
_PRODUCTS: Final = frozenset({"AddmmBackward0", "MmBackward0", "BmmBackward0", "ConvolutionBackward0"})


def draws_without_gradient(nodes: Sequence[Any]) -> list[Any]:
    """The draws that go into a product, and of which a part has a gradient by another way but not by this one.

    Args:
        nodes: those of a graph.
    """
    drawn = [node for node in nodes if node.name() in _NORMAL]
    if not drawn:
        return []
    takers: dict[Any, list[Any]] = {}
    for node in nodes:
        for following, _ in node.next_functions:
            if following is not None:
                takers.setdefault(following, []).append(node)
    return [node for node in drawn if _is_meant_to_have_one(node, takers)]


def _is_meant_to_have_one(node: Any, takers: dict[Any, list[Any]]) -> bool:
    """Whether what was drawn is used in a product, and what it was drawn with is used beside it, but not compared."""
    sources = [_behind_views(each) for each, _ in node.next_functions if each is not None]
    if not any(each.name() in _PRODUCTS for each in _uses_of(node, takers)):
        return False
    used_beside = False
    for source in sources:
        beside = [each for each in _uses_of(source, takers) if each is not node]
        used_beside |= bool(beside)
        if any(each.name() in _COMPARED for each in beside):
            return False
    return used_beside


def _behind_views(node: Any) -> Any:
    """The node of what a node is a view of."""
    while node.name() in _LIKE_VIEWS and node.next_functions and node.next_functions[0][0] is not None:
        node = node.next_functions[0][0]
    return node


def _uses_of(node: Any, takers: dict[Any, list[Any]]) -> list[Any]:
    """What took the value of a node, behind views of it."""
    found: list[Any] = []
    pending = list(takers.get(node, ()))
    for each in pending:
        if each.name() in _LIKE_VIEWS:
            pending += takers.get(each, ())
        else:
            found.append(each)
    return found
