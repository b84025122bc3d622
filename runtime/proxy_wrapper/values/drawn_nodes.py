"""Finds the values in an autograd graph that `torch.normal` drew although a gradient should reach their mean.

The gradient of `torch.normal(mean, std)` is zero. This is right if only the log-density of the drawn value has a
gradient, as in policies. The mean is subtracted there, which distinguishes this case.
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
"""A policy subtracts its mean from the drawn value. A model that reads its own predictions compares them by a loss."""
_LIKE_VIEWS: Final = frozenset(
    {"ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "ExpandBackward0", "UnsqueezeBackward0"}
    | {"SqueezeBackward0", "SqueezeBackward1", "TBackward0", "TransposeBackward0", "ToCopyBackward0", "CloneBackward0"}
)
_PRODUCTS: Final = frozenset({"AddmmBackward0", "MmBackward0", "BmmBackward0", "ConvolutionBackward0"})


def draws_without_gradient(nodes: Sequence[Any]) -> list[Any]:
    """The draws whose values a product uses, and whose mean or deviation has a gradient only through other nodes.

    Args:
        nodes: the nodes of a graph.
    """
    drawn = [node for node in nodes if node.name() in _NORMAL]
    if not drawn:
        return []
    users: dict[Any, list[Any]] = {}
    for node in nodes:
        for following, _ in node.next_functions:
            if following is not None:
                users.setdefault(following, []).append(node)
    return [node for node in drawn if _lacks_gradient(node, users)]


def _lacks_gradient(node: Any, users: dict[Any, list[Any]]) -> bool:
    """Whether a product uses the draw, and other nodes use its mean or deviation without comparing them."""
    sources = [_viewed(each) for each, _ in node.next_functions if each is not None]
    if not any(each.name() in _PRODUCTS for each in _uses_of(node, users)):
        return False
    is_used_elsewhere = False
    for source in sources:
        others = [each for each in _uses_of(source, users) if each is not node]
        is_used_elsewhere |= bool(others)
        if any(each.name() in _COMPARED for each in others):
            return False
    return is_used_elsewhere


def _viewed(node: Any) -> Any:
    """The node that computed the value that a node views."""
    while node.name() in _LIKE_VIEWS and node.next_functions and node.next_functions[0][0] is not None:
        node = node.next_functions[0][0]
    return node


def _uses_of(node: Any, users: dict[Any, list[Any]]) -> list[Any]:
    """The nodes that use the value of a node, directly or through views."""
    found: list[Any] = []
    pending = list(users.get(node, ()))
    for each in pending:
        if each.name() in _LIKE_VIEWS:
            pending += users.get(each, ())
        else:
            found.append(each)
    return found
