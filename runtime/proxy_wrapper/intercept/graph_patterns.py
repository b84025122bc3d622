"""Finds patterns in an autograd graph that module calls do not show: computation between and inside modules.

Only the first backward passes at a place are examined, and only the nodes nearest to the loss in a large graph.
Reading the graph creates and changes no node.
"""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from proxy_wrapper.events import GraphPattern
from proxy_wrapper.intercept.formula_patterns import ERROR, NORM, SCALE, find_formulas
from proxy_wrapper.intercept.losses import forward_of
from proxy_wrapper.intercept.target_patterns import ATTENDED, LAST_STEP, SEEN, find_target_patterns
from proxy_wrapper.levels import INFO
from proxy_wrapper.places.assigned_lines import AssignedLine
from proxy_wrapper.places.called_functions import Body, reachable
from proxy_wrapper.places.last_lines import last_lines
from proxy_wrapper.places.mask_lines import mask_lines, normal_lines
from proxy_wrapper.places.named_lines import error_line, norm_line, scale_line
from proxy_wrapper.places.position_slices import position_slices
from proxy_wrapper.places.view_lines import view_lines
from proxy_wrapper.values.drawn_nodes import draws_without_gradient
from proxy_wrapper.values.loss_graph import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import CodeType

    from torch import nn

    from proxy_wrapper.places.position_slices import PositionSlice
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
_ATTENTION: Final = "ScaledDotProduct"
"""How the names of the nodes of `scaled_dot_product_attention` begin."""
_PRODUCT: Final = "BmmBackward0"
_BEHIND_HEADS: Final = frozenset(
    _VIEWS
    | _TRANSPOSED
    | {"DivBackward0", "MulBackward0", "MulBackward1", "ExpandBackward0", "CloneBackward0", "UnsqueezeBackward0"}
    | {"ToCopyBackward0", "NativeDropoutBackward0"}
)
"""The nodes between a product of an attention and the views that split or merge its heads."""
_FARTHEST: Final = 8
_HEADS_AND_ALL: Final = 4
_SOFTMAXES: Final = frozenset({"SoftmaxBackward0", "SafeSoftmaxBackward0"})
_FEWEST_MIXED: Final = 3
"""The fewest dimensions of a tensor for which a view may mix up their order."""
_SIGN: Final = 1 << 63
_LINES: Final = {NORM: norm_line, SCALE: scale_line, ERROR: error_line}
"""For each formula, the function that finds its line."""


class _Heads(NamedTuple):
    """A view that splits features into heads: the shape before, the number of dimensions after, and that of heads."""

    before: tuple[int, ...]
    dimensions: int
    heads: int


class GraphPatterns:
    """Creates `GraphPattern` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._looks: dict[int, int] = {}
        # For each pattern, the function that finds its line in the code of modules.
        self._finders = {ATTENDED: mask_lines, SEEN: mask_lines, LAST_STEP: self._last_lines}
        # The classes whose `forward` adds no positions.
        self._without_positions: weakref.WeakSet[type] = weakref.WeakSet()

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
            self._node(node, users, location)
        for what, dim, shape, values in find_target_patterns(users):
            lines_of = self._finders.get(what)
            made = 0 if lines_of is None else self._line_of_modules(lines_of)
            self._emit(what, (), dim, shape, location, values, made)
        for what, dim, shape, values in find_formulas(users):
            self._emit(what, (), dim, shape, location, values, self._line_of(_LINES[what]))
        for node in draws_without_gradient(list(users)):
            made = self._line_of_modules(normal_lines)
            self._emit("normal-draw", (), 0, shape_of(node), location, made=made)
        if not looks:
            self._positions(location)

    def _node(self, node: Any, users: dict[Any, int], location: int) -> None:
        """Examine one node."""
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
        elif name == _PRODUCT or name.startswith(_ATTENTION):
            self._heads(node, location)

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
        dim, shape = getattr(node, "_saved_dim", None), shape_of(node)
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
        """Report a loss whose scores are products of vectors with themselves.

        A divergence from the products of a teacher is exempt: both sides contain the product of each vector with
        itself.
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
            self._emit("self-similarity", (), 0, shape_of(before), location)

    def _view(self, node: Any, location: int) -> None:
        """Report a view that should swap the first two dimensions, but does not."""
        viewed = _view_shapes(node)
        if viewed is None:
            return
        before, after = viewed
        if _merges_heads(node, before, after):
            self._emit("heads-merge", (), before[1], before, location, made=self._line_of_view(len(after)))
        if len(before) < _FEWEST_MIXED or len(after) != len(before) - 1 or min(before[:2]) < 2:
            return
        if after[0] == before[1] and before[0] % before[1] and after[1] == before[0] * before[2]:
            self._emit("view", (), 0, before, location, made=self._line_of_view(len(after)))

    def _heads(self, node: Any, location: int) -> None:
        """Report queries and keys that a view splits into heads without keeping their tokens apart."""
        queries, keys = (_mixed_heads(_input_node(node, index)) for index in (0, 1))
        if queries is not None and keys is not None and queries.heads == keys.heads:
            made = self._line_of_view(queries.dimensions)
            self._emit("heads-view", (), queries.heads, queries.before, location, made=made)

    def _line_of_view(self, dimensions: int) -> int:
        """The location of the only line in the code of modules that views a tensor to so many dimensions; else 0."""

        def lines_of(code: CodeType) -> Iterator[AssignedLine]:
            syntax = self._tracer.functions.find(code)
            lines = () if syntax is None else view_lines(syntax, dimensions)
            yield from (AssignedLine(code, line) for line in lines)

        return self._line_of_modules(lines_of)

    def _positions(self, location: int) -> None:
        """Report modules whose code adds positions along the first or the second dimension."""
        tracer = self._tracer
        for entry in list(tracer.registry):
            module, forward = entry.module(), forward_of(entry)
            if module is None or forward is None or type(module) in self._without_positions:
                continue
            syntax = tracer.functions.find(forward.code) if tracer.locator.is_user_code(forward.code) else None
            found = [] if syntax is None else list(position_slices(syntax))
            if not found:
                self._without_positions.add(type(module))
            for each in found:
                shape = _shape_of_positions(module, each)
                if len(shape) == _FEWEST_MIXED and shape[1 - each.dim] == 1 < shape[each.dim]:
                    made = tracer.locator.line(AssignedLine(forward.code, each.line))
                    self._emit("position-slice", (), each.dim, shape, location, made=made, module=entry.id)

    def _last_lines(self, code: CodeType) -> Iterator[AssignedLine]:
        """The lines of a function that take the last item of a tensor."""
        syntax = self._tracer.functions.find(code)
        yield from () if syntax is None else (AssignedLine(code, line) for line in last_lines(syntax))

    def _line_of_modules(self, lines_of: Callable[[CodeType], Iterator[AssignedLine]]) -> int:
        """The location of the only such line in the code of modules; 0 if there is not exactly one."""
        bodies = self._bodies(self._forwards())
        found = {(id(each.code), each.line): each for body in bodies for each in lines_of(body.code)}
        return self._tracer.locator.line(next(iter(found.values()))) if len(found) == 1 else 0

    def _line_of(self, find: Callable[[Iterable[Body]], AssignedLine | None]) -> int:
        """The location of a line in the code of modules or in the function that starts the backward pass; else 0."""
        frame = self._tracer.locator.user_frame(2)
        starts = self._forwards() + ([] if frame is None else [Body(frame.f_code, frame.f_globals)])
        return self._tracer.locator.line(find(self._bodies(starts)))

    def _forwards(self) -> list[Body]:
        return [forward for entry in list(self._tracer.registry) if (forward := forward_of(entry))]

    def _bodies(self, starts: Iterable[Body]) -> list[Body]:
        """Functions of the program and the functions that they may call, without duplicates."""
        is_user_code = self._tracer.locator.is_user_code
        found: dict[int, Body] = {}
        for body in starts:
            if is_user_code(body.code):
                for called in reachable(body, is_user_code):
                    found.setdefault(id(called.body.code), called.body)
        return list(found.values())

    def _emit(
        self,
        what: str,
        weights: tuple[int, ...],
        dim: int,
        shape: tuple[int, ...],
        location: int,
        values: tuple[float, ...] = (),
        made: int = 0,
        module: int = 0,
    ) -> None:
        tracer = self._tracer
        thread = tracer.thread
        now = tracer.now_us()
        event = GraphPattern(
            now, tracer.step, module, location, thread.number, thread.stage, what, weights, dim, shape, values, made
        )
        tracer.broadcast(event, location, level=INFO, also=(made,) if made else ())


def _shape_of_positions(module: nn.Module, positions: PositionSlice) -> tuple[int, ...]:
    """The shape of a parameter, a buffer or another tensor that holds positions; () if there is none.

    An embedding holds one position per row. They are taken to lie along the dimension that they are added along.
    """
    name = positions.attribute
    if positions.is_called:
        embedding = module._modules.get(name)
        if not isinstance(embedding, torch.nn.Embedding):
            return ()
        rows, features = embedding.num_embeddings, embedding.embedding_dim
        return (1, rows, features) if positions.dim else (rows, 1, features)
    for held in (module._parameters, module._buffers, module.__dict__):
        shape = getattr(held.get(name), "shape", None)
        if type(shape) is torch.Size:
            return tuple(shape)
    return ()


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

    Only sizes are read: reading a saved tensor may run code, such as that of a checkpoint.
    """
    if node is None or node.name() not in _VIEWS:
        return None
    before, after = getattr(node, "_saved_self_sym_sizes", ()), shape_of(node)
    return (tuple(before), after) if before and after and all(type(size) is int for size in before) else None


def _mixed_heads(node: Any) -> _Heads | None:
    """The view behind a node that splits (batch, tokens, features) into heads and mixes the tokens; else None."""
    for _ in range(_FARTHEST):
        if node is None or node.name() not in _BEHIND_HEADS:
            return None
        before, after = _view_shapes(node) or ((), ())
        if len(before) == _FEWEST_MIXED and len(after) >= _FEWEST_MIXED and after[-1]:
            batch, tokens, features = before
            heads = features // after[-1]
            is_split = after in ((batch, heads, tokens, after[-1]), (batch * heads, tokens, after[-1]))
            if is_split and heads * after[-1] == features and min(heads, tokens) > 1 and heads != tokens:
                return _Heads(before, len(after), heads)
        node = _input_node(node, 0)
    return None


def _merges_heads(node: Any, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether a view merges the heads of an attention, (batch, heads, tokens, features), and mixes the tokens."""
    if len(before) != _HEADS_AND_ALL or min(before[1:3]) < 2 or before[1] == before[2]:
        return False
    batch, heads, tokens, features = before
    if after != (batch, tokens, heads * features):
        return False
    product = _behind_heads(_input_node(node, 0))
    if product is None or product.name().startswith(_ATTENTION):
        return product is not None
    weights = _behind_heads(_input_node(product, 0)) if product.name() == _PRODUCT else None
    return weights is not None and weights.name() in _SOFTMAXES


def _behind_heads(node: Any) -> Any:
    """The first node behind another that neither views nor scales; None if there is none near."""
    for _ in range(_FARTHEST):
        if node is None or node.name() not in _BEHIND_HEADS:
            return node
        node = _input_node(node, 0)
    return None


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
