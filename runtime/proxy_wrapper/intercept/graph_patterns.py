"""Finds what an autograd graph has that no call of a module shows: what is computed between and inside of modules.

Only the first backward passes at a place are looked at, and of a large graph only the nodes that are nearest to the
loss. Reading the graph makes no node and changes none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.events import GraphPattern
from proxy_wrapper.intercept.formula_patterns import ERROR, NORM, SCALE, find_formulas
from proxy_wrapper.intercept.losses import forward_of
from proxy_wrapper.intercept.target_patterns import ATTENDED, SEEN, find_target_patterns
from proxy_wrapper.levels import INFO
from proxy_wrapper.places.called_functions import Body, reachable
from proxy_wrapper.places.mask_lines import mask_lines
from proxy_wrapper.places.named_lines import error_line, norm_line, scale_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import torch

    from proxy_wrapper.places.assigned_lines import AssignedLine
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
_LINES: Final = {NORM: norm_line, SCALE: scale_line, ERROR: error_line}
"""What finds the line to be named, by the formula."""


class GraphPatterns:
    """Makes `GraphPattern` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._looks: dict[int, int] = {}

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
            self._emit(what, (), dim, shape, location, values, self._mask_line() if what in (ATTENDED, SEEN) else 0)
        for what, dim, shape, values in find_formulas(takers):
            self._emit(what, (), dim, shape, location, values, self._line_of(_LINES[what]))

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

    def _mask_line(self) -> int:
        """The location of the only line in the code of modules that gives an attention a mask; 0 if there are more."""
        bodies = self._bodies([forward for entry in list(self._tracer.registry) if (forward := forward_of(entry))])
        found = {(id(each.code), each.line): each for body in bodies for each in mask_lines(body.code)}
        return self._tracer.locator.line(next(iter(found.values()))) if len(found) == 1 else 0

    def _line_of(self, find: Callable[[Iterable[Body]], AssignedLine | None]) -> int:
        """The location of a line in the code of modules, or in that which begins the backward pass; 0 if none is."""
        frame = self._tracer.locator.user_frame(2)
        begins = [forward for entry in list(self._tracer.registry) if (forward := forward_of(entry))]
        begins += [] if frame is None else [Body(frame.f_code, frame.f_globals)]
        return self._tracer.locator.line(find(self._bodies(begins)))

    def _bodies(self, begins: Iterable[Body]) -> list[Body]:
        """Some functions of the program with all that they lead to, each once."""
        is_user_code = self._tracer.locator.is_user_code
        found: dict[int, Body] = {}
        for body in begins:
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
    ) -> None:
        tracer = self._tracer
        thread = tracer.thread
        now = tracer.now_us()
        event = GraphPattern(
            now, tracer.step, 0, location, thread.number, thread.stage, what, weights, dim, shape, values, made
        )
        tracer.broadcast(event, location, level=INFO, also=(made,) if made else ())


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
