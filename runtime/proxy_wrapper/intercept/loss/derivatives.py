"""Detects derivatives that can be differentiated again but never are.

`torch.autograd.grad(..., create_graph=True)` with respect to parameters, as in the inner loop of MAML, returns
gradients with a graph. Autograd numbers the nodes that compute them, and these numbers are searched for in the graphs
of later passes. Only some passes at a place are followed. A graph that is too large to read counts as containing them.
Only places that adapt parameters are reported: some passes there differentiate the results of earlier ones, or the name
of the function says so. Other places may create a graph without using it, such as for the norm of a gradient.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.events import GraphPattern
from proxy_wrapper.levels import INFO
from proxy_wrapper.loss_graph.nodes import sequence_number
from proxy_wrapper.program_code.assigned_lines import AssignedLine
from proxy_wrapper.program_code.computed_lines import loss_variable
from proxy_wrapper.values.describe import PLAIN, find_tensors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import FrameType

    from proxy_wrapper.tracer import Tracer

_FIRST: Final = 16
"""All passes at a place are followed up to this number; later ones only if their number is a power of two."""

_MOST_PLACES: Final = 16
_MOST_NODES: Final = 4096
_LATER: Final = 4
"""The number of whole backward passes that are examined for each followed pass."""

_FEWEST_UNUSED: Final = 8
_ADAPTATION: Final = re.compile(r"adapt|inner|maml|fast_?weight|meta", re.IGNORECASE)
_LEAF: Final = "torch::autograd::AccumulateGrad"


class _Place:
    """What is known about a place that computes derivatives with a graph.

    Attributes:
        passes: the number of passes with respect to parameters, or to tensors that are not leaves of the graph.
        unused: the number of followed passes that no later pass differentiated.
        adapts: whether a pass differentiated the result of an earlier one here, or the function's name says that it
            adapts parameters.
        is_used: whether any pass was differentiated.
        is_reported: whether the place was reported.
        stack: the lines of the program that led to the first pass, innermost first.
    """

    __slots__ = ("adapts", "is_reported", "is_used", "passes", "stack", "unused")

    def __init__(self) -> None:
        self.passes = self.unused = 0
        self.adapts = self.is_used = self.is_reported = False
        self.stack: list[AssignedLine] = []


class _Followed:
    """A pass whose results are searched for: the numbers of their nodes, and how many passes were examined since."""

    __slots__ = ("location", "numbers", "seen")

    def __init__(self, location: int, numbers: frozenset[int]) -> None:
        self.location = location
        self.numbers = numbers
        self.seen = 0


class Derivatives:
    """Creates `GraphPattern` events of the derivatives of one thread: autograd numbers nodes for each thread."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._places: dict[int, _Place] = {}
        self._followed: list[_Followed] = []

    def before_pass(self, roots: Sequence[torch.Tensor], location: int, *, is_whole: bool, has_graph: bool) -> None:
        """Search the graph of a pass for derivatives that were computed earlier.

        Args:
            roots: the tensors to differentiate.
            location: the place of the pass.
            is_whole: whether the pass accumulates gradients and does not run inside another one.
            has_graph: whether the results can be differentiated again.
        """
        if not self._followed:
            return
        numbers = _numbers_of(roots)
        rest: list[_Followed] = []
        for each in self._followed:
            place = self._places[each.location]
            is_reached = numbers is None or not each.numbers.isdisjoint(numbers)
            if is_reached and has_graph and not is_whole and location == each.location:
                place.adapts = True
            elif is_reached:
                self._use(place, each.location)
            each.seen += is_whole
            if each.seen >= _LATER and not place.is_used:
                place.unused += 1
                if place.unused >= _FEWEST_UNUSED and place.adapts and not place.is_reported:
                    place.is_reported = True
                    self._emit("derivatives-unused", each.location)
            elif not place.is_used:
                rest.append(each)
        self._followed = rest

    def after_pass(self, results: Any, inputs: Any, location: int) -> None:
        """Follow the results of a pass with `create_graph=True`, if it is with respect to parameters."""
        if len(self._places) >= _MOST_PLACES and location not in self._places:
            return
        place = self._places.setdefault(location, _Place())
        if place.is_used or not _are_parameters(find_tensors((inputs,)), has_begun=place.passes > 0):
            return
        if not place.passes:
            place.stack = self._stack()
            place.adapts |= bool(place.stack) and _ADAPTATION.search(place.stack[0].code.co_name) is not None
        place.passes += 1
        if place.passes > _FIRST and place.passes & (place.passes - 1):
            return
        nodes = [each.grad_fn for each in find_tensors((results,)) if type(each) in PLAIN and each.requires_grad]
        numbers = frozenset(sequence_number(node) for node in nodes if node is not None and node.name() != _LEAF)
        if numbers:
            self._followed.append(_Followed(location, numbers))

    def _use(self, place: _Place, location: int) -> None:
        """Record that derivatives of a place were differentiated."""
        if not place.is_used:
            place.is_used = True
            if place.is_reported:
                self._emit("derivatives-used", location)

    def _emit(self, what: str, location: int) -> None:
        tracer = self._tracer
        thread = tracer.thread
        made = tracer.locator.line(self._line_of_use(self._places[location].stack))
        event = GraphPattern(tracer.now_us(), tracer.step, 0, location, thread.number, thread.stage, what, made=made)
        tracer.broadcast(event, location, level=INFO, also=(made,) if made else ())

    def _line_of_use(self, stack: Sequence[AssignedLine]) -> AssignedLine | None:
        """The line, of those that led to a pass, whose function had its results to use; None if none is known.

        It is in the innermost function that is still running. If that line computes the loss, it is in the function
        called there, unless this is the one that differentiates.
        """
        codes = {id(each.code) for each in self._stack()}
        depth = next((depth for depth, each in enumerate(stack) if id(each.code) in codes), None)
        if depth is None:
            return None
        frame = self._tracer.locator.user_frame(2)
        loss = None if frame is None else loss_variable(frame)
        is_of_loss = loss is not None and (loss.code, loss.line) == (stack[depth].code, stack[depth].line)
        return stack[depth - 1] if is_of_loss and depth > 1 else stack[depth]

    def _stack(self) -> list[AssignedLine]:
        """The lines of the program that are running, innermost first."""
        is_user_code = self._tracer.locator.is_user_code
        found = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if is_user_code(frame.f_code):
                found.append(AssignedLine(frame.f_code, frame.f_lineno))
            frame = frame.f_back
        return found


def _are_parameters(inputs: Sequence[torch.Tensor], *, has_begun: bool) -> bool:
    """Whether derivatives are with respect to parameters or, if `has_begun`, to results of a computation."""
    return any(isinstance(each, torch.nn.Parameter) or (has_begun and not each.is_leaf) for each in inputs)


def _numbers_of(roots: Iterable[torch.Tensor]) -> set[int] | None:
    """The numbers of all nodes in the graph of some tensors; None if there are too many."""
    pending = [each.grad_fn for each in roots if each.grad_fn is not None]
    seen = set(pending)
    for node in pending:
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                if len(seen) >= _MOST_NODES:
                    return None
                seen.add(following)
                pending.append(following)
    return {sequence_number(node) for node in pending}
