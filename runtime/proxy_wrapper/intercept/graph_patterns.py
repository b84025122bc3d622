"""Finds patterns in an autograd graph that module calls do not show: computation between and inside modules.

Only the first backward passes at a place are examined, and only the nodes nearest to the loss in a large graph.
Reading the graph creates and changes no node.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.events import GraphPattern
from proxy_wrapper.intercept.losses import forward_of
from proxy_wrapper.intercept.target_patterns import ATTENDED, SEEN, find_target_patterns
from proxy_wrapper.levels import INFO
from proxy_wrapper.places.called_functions import reachable
from proxy_wrapper.places.mask_lines import mask_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from proxy_wrapper.places.assigned_lines import AssignedLine
    from proxy_wrapper.tracer import Tracer

_LOOKS: Final = 2
_MOST_PLACES: Final = 100
_MOST_NODES: Final = 4096

_LEAF: Final = "torch::autograd::AccumulateGrad"
_LINEAR: Final = {"AddmmBackward0": (1, 2), "MmBackward0": (0, 1)}
"""The nodes of linear layers: the positions of their input and their weight."""
_RESHAPED: Final = frozenset({"ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "SqueezeBackward1"})
_OF_WEIGHT: Final = frozenset({"TBackward0", "ToCopyBackward0"})
_ACTIVATIONS: Final = frozenset(
    f"{name}Backward0"
    for name in (
        "Relu", "LeakyRelu", "Elu", "Celu", "Selu", "Gelu", "Silu", "Mish", "Softplus", "Tanh", "Sigmoid", "LogSigmoid",
        "Hardtanh", "Hardswish", "Hardsigmoid", "Threshold", "PreluKernel", "RreluWithNoise", "Glu", "Clamp", "Softmax",
        "Sin", "Cos", "Exp", "Pow", "MaxPool2DWithIndices", "AdaptiveMaxPool2D", "NativeLayerNorm", "NativeBatchNorm",
        "NativeGroupNorm", "MkldnnRnnLayer",
    )
)  # fmt: skip
"""The nodes of functions that are not linear, between layers."""
_SOFTMAX: Final = "SoftmaxBackward0"
_LOG_SOFTMAX: Final = "LogSoftmaxBackward0"
_CLASS_LOSS: Final = "NllLossBackward0"
"""The node of `cross_entropy` for class targets."""
_VIEWS: Final = frozenset({"ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0"})
_SCALED: Final = frozenset({"DivBackward0", "MulBackward0"})
_TRANSPOSED: Final = frozenset({"TBackward0", "TransposeBackward0", "PermuteBackward0"})
_FEWEST_MIXED: Final = 3
"""The fewest dimensions of a tensor for which a view may mix up their order."""
_SIGN: Final = 1 << 63


class GraphPatterns:
    """Creates `GraphPattern` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._looks: dict[int, int] = {}

    def look(self, roots: Sequence[torch.Tensor], location: int) -> None:
        """Examine the graph of a backward pass, right before it begins."""
        looks = self._looks.get(location, 0)
        if len(roots) != 1 or looks >= _LOOKS or (not looks and len(self._looks) >= _MOST_PLACES):
            return
        self._looks[location] = looks + 1
        if roots[0].grad_fn is None:
            return
        users = _users(roots[0].grad_fn)
        for node in users:
            name = node.name()
            if name in _LINEAR:
                self._linear(node, name, users, location)
            elif name == _SOFTMAX:
                self._softmax(node, location)
            elif name == _LOG_SOFTMAX:
                self._log_softmax(node, location)
            elif name == _CLASS_LOSS:
                self._class_loss(node, location)
            elif name in _VIEWS:
                self._view(node, location)
        for what, dim, shape, values in find_target_patterns(users):
            self._emit(what, (), dim, shape, location, values, self._mask_line() if what in (ATTENDED, SEEN) else 0)

    def _linear(self, node: Any, name: str, users: dict[Any, int], location: int) -> None:
        """Report a linear layer whose input is the unchanged output of another."""
        own = self._weight(node, _LINEAR[name][1])
        before = _input_node(node, _LINEAR[name][0])
        while before is not None and before.name() in _RESHAPED and users.get(before) == 1:
            before = _input_node(before, 0)
        if not own or before is None or before.name() not in _LINEAR or users.get(before) != 1:
            return
        first = self._weight(before, _LINEAR[before.name()][1])
        if first:
            self._emit("linear-linear", (first, own), 0, (), location, (float(_has_activation(users)),))

    def _weight(self, node: Any, place: int) -> int:
        """The id of the parameter that is the weight of a linear layer; 0 if it is not a parameter."""
        weight = _input_node(node, place)
        is_transposed = False
        while weight is not None and weight.name() in _OF_WEIGHT:
            is_transposed |= weight.name() == "TBackward0"
            weight = _input_node(weight, 0)
        if weight is None or weight.name() != _LEAF or not is_transposed:
            return 0
        tensor = weight.variable
        state = self._tracer.registry.by_identity.get(id(tensor))
        return state.id if state is not None and state.tensor() is tensor else 0

    def _softmax(self, node: Any, location: int) -> None:
        dim, shape = getattr(node, "_saved_dim", None), _sizes_of(node)
        if type(dim) is not int or not shape:
            return
        dim = dim - 2 * _SIGN if dim >= _SIGN else dim
        self._emit("softmax", (), dim % max(1, len(shape)), shape, location)

    def _log_softmax(self, node: Any, location: int) -> None:
        """Report a log-softmax over a view that mixes up the classes."""
        viewed = _view_shapes(_input_node(node, 0))
        if viewed is not None:
            before, after = viewed
            count = math.prod(before) // before[1] if len(before) >= _FEWEST_MIXED and before[1] > 1 else 0
            if count > before[0] and tuple(after) == (count, before[1]) and before[1] != before[-1]:
                self._emit("classes-view", (), 1, before, location)

    def _class_loss(self, node: Any, location: int) -> None:
        """Report one whose scores are products of vectors with themselves.

        A divergence that compares them with a teacher's is exempt: there each vector meets itself on both sides.
        """
        before = _input_node(node, 0)
        if before is None or before.name() != _LOG_SOFTMAX:
            return
        before = _input_node(before, 0)
        while before is not None and before.name() in _SCALED and _input_node(before, 1) is None:
            before = _input_node(before, 0)
        if before is None or before.name() not in ("MmBackward0", "BmmBackward0"):
            return
        left, right = _input_node(before, 0), _input_node(before, 1)
        if left is not None and right is not None and right.name() in _TRANSPOSED and _input_node(right, 0) is left:
            self._emit("self-similarity", (), 0, _sizes_of(before), location)

    def _view(self, node: Any, location: int) -> None:
        """Report a view that was meant to swap the first two dimensions, and does not."""
        viewed = _view_shapes(node)
        if viewed is None:
            return
        before, after = viewed
        if len(before) < _FEWEST_MIXED or len(after) != len(before) - 1 or min(before[:2]) < 2:
            return
        if after[0] == before[1] and before[0] % before[1] and after[1] == before[0] * before[2]:
            self._emit("view", (), 0, before, location)

    def _mask_line(self) -> int:
        """The location of the only line in module code that gives attention a mask; 0 if there is not exactly one."""
        tracer = self._tracer
        is_user_code = tracer.locator.is_user_code
        found: dict[tuple[int, int], AssignedLine] = {}
        for entry in list(tracer.registry):
            forward = forward_of(entry)
            if forward is None or not is_user_code(forward.code):
                continue
            for called in reachable(forward, is_user_code):
                found.update(((id(each.code), each.line), each) for each in mask_lines(called.body.code))
        return tracer.locator.line(next(iter(found.values()))) if len(found) == 1 else 0

    def _emit(
        self,
        what: str,
        weights: tuple[int, ...],
        dim: int,
        shape: tuple[int, ...],
        location: int,
        values: tuple[float, ...] = (),
        made: int = 0,
    ) -> None:
        tracer = self._tracer
        thread = tracer.thread
        now = tracer.now_us()
        event = GraphPattern(
            now, tracer.step, 0, location, thread.number, thread.stage, what, weights, dim, shape, values, made
        )
        tracer.broadcast(event, location, level=INFO, also=(made,) if made else ())


def _has_activation(users: dict[Any, int]) -> bool:
    """Whether any linear layer in a graph follows a nonlinear function."""
    below = {node for node in users if node.name() in _LINEAR}
    pending = list(below)
    for node in pending:
        for following, _ in node.next_functions:
            if following is not None and following in users and following not in below:
                if following.name() in _ACTIVATIONS:
                    return True
                below.add(following)
                pending.append(following)
    return False


def _input_node(node: Any, place: int) -> Any:
    """The node that computed the input at an index; None if that input has no gradient."""
    following = node.next_functions
    return following[place][0] if place < len(following) else None


def _view_shapes(node: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The shapes of a view's input and output; None if the node is no view, or its sizes are unknown.

    Only sizes are read: reading a saved tensor may run code, as that of a checkpoint.
    """
    if node is None or node.name() not in _VIEWS:
        return None
    before, after = getattr(node, "_saved_self_sym_sizes", ()), _sizes_of(node)
    return (tuple(before), after) if before and after and all(type(size) is int for size in before) else None


def _sizes_of(node: Any) -> tuple[int, ...]:
    """The shape of a node's output; () if unknown."""
    metadata = getattr(node, "_input_metadata", None)
    return tuple(size if type(size) is int else 0 for size in metadata[0].shape) if metadata else ()


def _users(root: Any) -> dict[Any, int]:
    """The nodes of a graph, those nearest to its root first, with the number of nodes that use each one's output."""
    found = {root: 0}
    pending = [root]
    for node in pending:
        for following, _ in node.next_functions:
            if following is None:
                continue
            if following in found:
                found[following] += 1
            elif len(pending) < _MOST_NODES:
                found[following] = 1
                pending.append(following)
    return found
