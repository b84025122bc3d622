"""Walks over the nodes of an autograd graph, from a result towards what it was computed from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

LEAF: Final = "torch::autograd::AccumulateGrad"
VIEWS: Final = frozenset({"ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0"})
"""The nodes of views that may change every dimension."""
TRANSPOSED: Final = frozenset({"TBackward0", "TransposeBackward0", "TransposeBackward1", "PermuteBackward0"})
SQUEEZED: Final = frozenset({"SqueezeBackward0", "SqueezeBackward1", "UnsqueezeBackward0"})
COPIED: Final = frozenset({"AliasBackward0", "CloneBackward0", "ToCopyBackward0"})
"""The nodes of copies, which may change the dtype."""
SAME_VALUES: Final = VIEWS | TRANSPOSED | SQUEEZED | COPIED | {"ExpandBackward0"}
"""The nodes whose result has the values of their input, in another shape."""
SAME_ROWS: Final = (
    SAME_VALUES | {"SliceBackward0", "IndexBackward0", "IndexSelectBackward0", "SplitBackward0"} | {"SelectBackward0"}
)
"""The nodes whose result has some or all of the rows of their input."""
SUMS: Final = frozenset({"AddBackward0", "AddBackward1"})
DIFFERENCE: Final = "SubBackward0"
PRODUCT: Final = "MulBackward0"
QUOTIENT: Final = "DivBackward0"
SCALED: Final = frozenset({PRODUCT, QUOTIENT})
TOTALS: Final = frozenset({"SumBackward0", "SumBackward1"})
MEANS: Final = frozenset({"MeanBackward0", "MeanBackward1"})
MATRIX_PRODUCTS: Final = frozenset({"MmBackward0", "BmmBackward0"})
LOG_SOFTMAX: Final = "LogSoftmaxBackward0"
SOFTMAXES: Final = frozenset({"SoftmaxBackward0", "SafeSoftmaxBackward0"})
CLASS_LOSS: Final = "NllLossBackward0"
"""The node of `cross_entropy` for class targets."""
CLASS_LOSSES: Final = (CLASS_LOSS, "NllLoss2DBackward0")
BINARY_LOSSES: Final = ("BinaryCrossEntropyWithLogitsBackward0", "BinaryCrossEntropyBackward0")
ERRORS: Final = ("MseLossBackward0", "SmoothL1LossBackward0", "HuberLossBackward0")
"""The nodes of losses that compare numbers and save their targets."""
LAYERS: Final = {"AddmmBackward0": 2, "MmBackward0": 1, "ConvolutionBackward0": 1}
"""The nodes of layers: the index of their weight."""

_FARTHEST: Final = 12
"""The most nodes that are followed along a chain."""


class Output(NamedTuple):
    """One of the outputs of a node."""

    node: Any
    place: int


def inputs_of(node: Any) -> Sequence[Output]:
    """The inputs of a node that have a gradient."""
    return [Output(value, place) for value, place in node.next_functions if value is not None]


def input_at(node: Any, index: int) -> Output | None:
    """The input of a node at an index; None if there is none, or if it has no gradient."""
    following = node.next_functions
    return Output(*following[index]) if index < len(following) and following[index][0] is not None else None


def node_before(node: Any, index: int) -> Any:
    """The node that computed the input at an index; None if there is none, or if it has no gradient."""
    found = input_at(node, index)
    return None if found is None else found.node


def only_node_before(node: Any) -> Any:
    """The node that computed the only input with a gradient; None if there is not exactly one such input."""
    found = inputs_of(node)
    return found[0].node if len(found) == 1 else None


def behind(value: Output, names: Container[str]) -> Output:
    """The value before a chain of nodes with some names that have one input with a gradient each."""
    for _ in range(_FARTHEST):
        inputs = inputs_of(value.node)
        if value.node.name() not in names or len(inputs) != 1:
            break
        (value,) = inputs
    return value


def node_behind(node: Any, names: Container[str], index: int = 0) -> Any:
    """The first node before another, or itself, that has none of some names; None if the graph ends before.

    Args:
        node: the node to begin with; may be None.
        names: the names of the nodes to pass.
        index: which input of these to follow.
    """
    for _ in range(_FARTHEST):
        if node is None or node.name() not in names:
            return node
        node = node_before(node, index)
    return None


def sequence_number(node: Any) -> int:
    """The number that autograd gave a node: nodes of one thread are numbered in order of creation."""
    number: int = node._sequence_nr()
    return number


def shape_of(node: Any) -> tuple[int, ...]:
    """The shape of a node's forward result, which is also that of its incoming gradient; () if unknown."""
    metadata = getattr(node, "_input_metadata", None)  # Missing in the oldest supported versions.
    if not metadata:
        return ()
    shape = metadata[0].shape
    return tuple(size if type(size) is int else 0 for size in shape)


def view_shapes(node: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The shapes of a view's input and output; None if the node is no view, or its sizes are unknown.

    Only sizes are read: reading a saved tensor may run code, such as that of a checkpoint.
    """
    if node is None or node.name() not in VIEWS:
        return None
    before, after = getattr(node, "_saved_self_sym_sizes", ()), shape_of(node)
    return (tuple(before), after) if before and after and all(type(size) is int for size in before) else None
