"""Finds what an autograd graph has that no call of a module shows: what is computed between and inside of modules.

Only the first backward passes at a place are looked at, and of a large graph only the nodes that are nearest to the
loss. Reading the graph makes no node and changes none.
"""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.events import GraphPattern
from proxy_wrapper.intercept.losses import forward_of
from proxy_wrapper.intercept.target_patterns import ATTENDED, LAST_STEP, SEEN, find_target_patterns
from proxy_wrapper.levels import INFO
from proxy_wrapper.places.assigned_lines import AssignedLine
from proxy_wrapper.places.called_functions import reachable
from proxy_wrapper.places.last_lines import last_lines
from proxy_wrapper.places.mask_lines import mask_lines, normal_lines
from proxy_wrapper.places.position_slices import position_slices
from proxy_wrapper.values.drawn_nodes import draws_without_gradient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import CodeType

    from torch import nn

    from proxy_wrapper.places.position_slices import PositionSlice
    from proxy_wrapper.tracer import Tracer

_LOOKS: Final = 2
_MOST_PLACES: Final = 100
_MOST_NODES: Final = 4096

_LEAF: Final = "torch::autograd::AccumulateGrad"
_LINEAR: Final = {"AddmmBackward0": (1, 2), "MmBackward0": (0, 1)}
"""The nodes of linear layers: the places of what it takes, and of its weight."""
_RESHAPED: Final = frozenset({"ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "SqueezeBackward1"})
_OF_WEIGHT: Final = frozenset({"TBackward0", "ToCopyBackward0"})
_SOFTMAX: Final = "SoftmaxBackward0"
_LOG_SOFTMAX: Final = "LogSoftmaxBackward0"
_CLASS_LOSS: Final = "NllLossBackward0"
"""What `cross_entropy` gives, for targets that are classes."""
_VIEWS: Final = frozenset({"ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0"})
_SCALED: Final = frozenset({"DivBackward0", "MulBackward0"})
_TRANSPOSED: Final = frozenset({"TBackward0", "TransposeBackward0", "PermuteBackward0"})
_FEWEST_MIXED: Final = 3
"""How many dimensions a tensor has whose view may change their order."""
_SIGN: Final = 1 << 63


class GraphPatterns:
    """Makes `GraphPattern` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._looks: dict[int, int] = {}
        # What finds the line of a pattern in the code of modules.
        self._finders = {ATTENDED: mask_lines, SEEN: mask_lines, LAST_STEP: self._last_lines}
        # The classes whose `forward` adds no positions.
        self._without_positions: weakref.WeakSet[type] = weakref.WeakSet()

    def look(self, roots: Sequence[torch.Tensor], location: int) -> None:
        """Look at the graph of what a backward pass begins with, right before it does."""
        looks = self._looks.get(location, 0)
        if len(roots) != 1 or looks >= _LOOKS or (not looks and len(self._looks) >= _MOST_PLACES):
            return
        self._looks[location] = looks + 1
        if roots[0].grad_fn is None:
            return
        takers = _takers(roots[0].grad_fn)
        for node in takers:
            name = node.name()
            if name in _LINEAR:
                self._linear(node, name, takers, location)
            elif name == _SOFTMAX:
                self._softmax(node, location)
            elif name == _LOG_SOFTMAX:
                self._log_softmax(node, location)
            elif name == _CLASS_LOSS:
                self._class_loss(node, location)
            elif name in _VIEWS:
                self._view(node, location)
        for what, dim, shape, values in find_target_patterns(takers):
            lines_of = self._finders.get(what)
            made = 0 if lines_of is None else self._line_of_modules(lines_of)
            self._emit(what, (), dim, shape, location, values, made)
        for node in draws_without_gradient(list(takers)):
            made = self._line_of_modules(normal_lines)
            self._emit("normal-draw", (), 0, _sizes_of(node), location, made=made)
        if not looks:
            self._positions(location)

    def _linear(self, node: Any, name: str, takers: dict[Any, int], location: int) -> None:
        """Tell of a linear layer that takes what another one gave, as it is."""
        own = self._weight(node, _LINEAR[name][1])
        before = _given_by(node, _LINEAR[name][0])
        while before is not None and before.name() in _RESHAPED and takers.get(before) == 1:
            before = _given_by(before, 0)
        if not own or before is None or before.name() not in _LINEAR or takers.get(before) != 1:
            return
        first = self._weight(before, _LINEAR[before.name()][1])
        if first:
            self._emit("linear-linear", (first, own), 0, (), location)

    def _weight(self, node: Any, place: int) -> int:
        """The id of the parameter that is the weight of a linear layer; 0 if it is none."""
        weight = _given_by(node, place)
        is_transposed = False
        while weight is not None and weight.name() in _OF_WEIGHT:
            is_transposed |= weight.name() == "TBackward0"
            weight = _given_by(weight, 0)
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
        """Tell of one over a view that mixes the classes."""
        viewed = _viewed(_given_by(node, 0))
        if viewed is not None:
            given, gave = viewed
            count = math.prod(given) // given[1] if len(given) >= _FEWEST_MIXED and given[1] > 1 else 0
            if count > given[0] and tuple(gave) == (count, given[1]) and given[1] != given[-1]:
                self._emit("classes-view", (), 1, given, location)

    def _class_loss(self, node: Any, location: int) -> None:
        """Tell of one whose scores are the products of vectors with themselves.

        Not where a divergence compares these with those of a teacher: there each vector has itself on both sides.
        """
        before = _given_by(node, 0)
        if before is None or before.name() != _LOG_SOFTMAX:
            return
        before = _given_by(before, 0)
        while before is not None and before.name() in _SCALED and _given_by(before, 1) is None:
            before = _given_by(before, 0)
        if before is None or before.name() not in ("MmBackward0", "BmmBackward0"):
            return
        left, right = _given_by(before, 0), _given_by(before, 1)
        if left is not None and right is not None and right.name() in _TRANSPOSED and _given_by(right, 0) is left:
            self._emit("self-similarity", (), 0, _sizes_of(before), location)

    def _view(self, node: Any, location: int) -> None:
        """Tell of a view whose first dimension is the second of what it is a view of: it does not swap them."""
        viewed = _viewed(node)
        if viewed is None:
            return
        given, gave = viewed
        if len(given) < _FEWEST_MIXED or len(gave) != len(given) - 1 or min(given[:2]) < 2:
            return
        if gave[0] == given[1] and given[0] % given[1] and gave[1] == given[0] * given[2]:
            self._emit("view", (), 0, given, location)

    def _positions(self, location: int) -> None:
        """Tell of modules that add positions along the first or the second dimension, as their code says."""
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
        """The location of the only such line in the code of modules; 0 if there are more, or none."""
        tracer = self._tracer
        is_user_code = tracer.locator.is_user_code
        found: dict[tuple[int, int], AssignedLine] = {}
        for entry in list(tracer.registry):
            forward = forward_of(entry)
            if forward is None or not is_user_code(forward.code):
                continue
            for called in reachable(forward, is_user_code):
                found.update(((id(each.code), each.line), each) for each in lines_of(called.body.code))
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

    An embedding has one for each of its rows, along the dimension to which they are added.
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


def _given_by(node: Any, place: int) -> Any:
    """The node that gave what another one took at a place; None if nothing did that has a gradient."""
    following = node.next_functions
    return following[place][0] if place < len(following) else None


def _viewed(node: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The shapes of what a view was given and of what it gave; None if the node is no view, or its sizes are not known.

    Sizes alone are read: to read a tensor that a node has saved may run code, as that of a checkpoint.
    """
    if node is None or node.name() not in _VIEWS:
        return None
    given, gave = getattr(node, "_saved_self_sym_sizes", ()), _sizes_of(node)
    return (tuple(given), gave) if given and gave and all(type(size) is int for size in given) else None


def _sizes_of(node: Any) -> tuple[int, ...]:
    """The shape of what the call of a node gave; () if that is not known."""
    metadata = getattr(node, "_input_metadata", None)
    return tuple(size if type(size) is int else 0 for size in metadata[0].shape) if metadata else ()


def _takers(root: Any) -> dict[Any, int]:
    """The nodes of a graph, those nearest to its root first, with how many others took what each gave."""
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
