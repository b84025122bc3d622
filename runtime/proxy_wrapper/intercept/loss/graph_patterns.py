"""Reports patterns in the graph of a loss that module calls do not show: computation between and inside modules.

Only the first backward passes at a place are examined, and only the nodes nearest to the loss in a large graph.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Final

import torch

from proxy_wrapper.code_lines.argument_names import wrong_arguments
from proxy_wrapper.code_lines.cut_terms import cut_term
from proxy_wrapper.code_lines.last_lines import last_lines
from proxy_wrapper.code_lines.mask_lines import mask_lines, normal_lines
from proxy_wrapper.code_lines.named_lines import (
    class_weight_line,
    error_line,
    ignored_class_line,
    norm_line,
    positive_weight_line,
    reconstruction_line,
    rounding_lines,
    scale_line,
)
from proxy_wrapper.code_lines.operation_lines import operation_lines
from proxy_wrapper.code_lines.policy_products import may_negate, policy_products
from proxy_wrapper.code_lines.position_slices import position_slices
from proxy_wrapper.code_lines.sample_lines import sample_lines
from proxy_wrapper.code_lines.softmax_lines import softmax_lines
from proxy_wrapper.code_lines.view_lines import view_lines
from proxy_wrapper.events import GraphPattern
from proxy_wrapper.intercept.loss.losses import forward_of
from proxy_wrapper.levels import INFO
from proxy_wrapper.loss_graph.attention_sums import OVER_QUERIES
from proxy_wrapper.loss_graph.attentions import ATTENDED
from proxy_wrapper.loss_graph.class_scores import CLASSES_OVER_SAMPLES, SOFTMAX
from proxy_wrapper.loss_graph.class_weights import CLASSES, POSITIVES
from proxy_wrapper.loss_graph.critics import ERROR
from proxy_wrapper.loss_graph.draws import DRAW
from proxy_wrapper.loss_graph.elbo import WEIGHT
from proxy_wrapper.loss_graph.find_patterns import find_patterns
from proxy_wrapper.loss_graph.graph import LossGraph
from proxy_wrapper.loss_graph.ignored_classes import IGNORED
from proxy_wrapper.loss_graph.last_steps import LAST_OF_BOTH, LAST_STEP
from proxy_wrapper.loss_graph.norms import NORM
from proxy_wrapper.loss_graph.pattern import Pattern
from proxy_wrapper.loss_graph.policies import LOWERED
from proxy_wrapper.loss_graph.roundings import ROUNDED
from proxy_wrapper.loss_graph.scales import SCALE
from proxy_wrapper.loss_graph.separate_terms import SEPARATE
from proxy_wrapper.loss_graph.targets import MULTI_HOT_PROBABILITIES
from proxy_wrapper.loss_graph.token_targets import SEEN
from proxy_wrapper.program_code.assigned_lines import AssignedLine
from proxy_wrapper.program_code.called_functions import Body, bodies_around, body_at, reachable
from proxy_wrapper.program_code.frame_variables import values_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import CodeType

    from torch import nn

    from proxy_wrapper.code_lines.position_slices import PositionSlice
    from proxy_wrapper.tracer import Tracer

_LOOKS: Final = 2
_MOST_PLACES: Final = 100
_SEQUENCES: Final = 3
"""The dimensions of a batch of sequences of vectors."""
_LINES: Final = {NORM: norm_line, SCALE: scale_line, ERROR: error_line, WEIGHT: reconstruction_line}
"""For patterns that functions outside modules may make: what finds the line in several functions."""
_LINES_AROUND: Final = {POSITIVES: positive_weight_line, CLASSES: class_weight_line, IGNORED: ignored_class_line}
"""For patterns that depend on what was made before training: what finds the line in all functions around."""
_WITH_LINE: Final = frozenset({LOWERED, SEPARATE})
"""Patterns that count only with a line."""


class GraphPatterns:
    """Creates `GraphPattern` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._looks: dict[int, int] = {}
        # For patterns that modules make: what finds the lines in the code of one.
        self._finders = {
            ATTENDED: mask_lines,
            DRAW: normal_lines,
            LAST_STEP: self._last_lines,
            LAST_OF_BOTH: self._last_lines,
            ROUNDED: rounding_lines,
            OVER_QUERIES: _softmaxes,
            MULTI_HOT_PROBABILITIES: _softmaxes,
        }
        self._reported: set[tuple[str, int]] = set()
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
        for pattern in find_patterns(LossGraph(roots[0].grad_fn)):
            weights = [self._id_of(weight) for weight in pattern.weights]
            line = self._line_of_pattern(pattern)
            if all(weights) and (line or not (pattern.line or pattern.what in _WITH_LINE)):
                self._emit(pattern, location, tuple(weights), line)
        if not looks:
            self._cut_term(roots[0].grad_fn, location)
            self._positions(location)
            self._arguments(location)

    def _id_of(self, tensor: torch.Tensor) -> int:
        """The id of a tensor; 0 if it is not a known one."""
        state = self._tracer.registry.state_entry(tensor)
        return 0 if state is None else state.id

    def _line_of_pattern(self, pattern: Pattern) -> int:
        """The location of the line that makes a pattern; 0 if it is unknown."""
        if pattern.line is not None:
            return self._tracer.locator.line(pattern.line)
        if pattern.viewed_to:
            return self._line_of_modules(lambda code: self._view_lines(code, pattern.viewed_to))
        if pattern.what in _LINES:
            return self._line_of(_LINES[pattern.what])
        if pattern.what in (SOFTMAX, CLASSES_OVER_SAMPLES):
            return 0 if pattern.dim else self._line_of_modules(self._softmax_lines)
        if pattern.what in _LINES_AROUND:
            locator = self._tracer.locator
            bodies = bodies_around(locator.user_frame(1), locator.is_user_code)
            return locator.line(_LINES_AROUND[pattern.what](bodies))
        if pattern.what == LOWERED:
            return self._policy_line()
        if pattern.what == SEPARATE:
            return self._sample_line()
        if pattern.what == SEEN:
            return self._line_of_modules(mask_lines) or self._line_of_modules(_softmaxes)
        lines_of = self._finders.get(pattern.what)
        return 0 if lines_of is None else self._line_of_modules(lines_of)

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
                if len(shape) == _SEQUENCES and shape[1 - each.dim] == 1 < shape[each.dim]:
                    made = tracer.locator.line(AssignedLine(forward.code, each.line))
                    self._emit(Pattern("position-slice", shape, each.dim), location, made=made, module=entry.id)

    def _cut_term(self, root: torch.autograd.graph.Node, location: int) -> None:
        """Report a term of the loss that was cut off the graph."""
        tracer = self._tracer
        frame = tracer.locator.user_frame(2)
        if frame is None:
            return
        try:
            cut = cut_term(frame, root, tracer.functions.find_any, tracer.locator.is_user_code)
        except RecursionError:  # An expression of a thousand factors, in generated code.
            return
        if cut is not None:
            self._emit(Pattern("cut-term", ()), location, made=tracer.locator.line(cut))

    def _arguments(self, location: int) -> None:
        """Report calls of PyTorch's functions whose arguments are named like other parameters."""
        tracer = self._tracer
        for body in self._running():
            syntax = tracer.functions.find_any(body.code)
            for each in () if syntax is None else wrong_arguments(syntax, body):
                line = tracer.locator.line(AssignedLine(body.code, each.line))
                if line and (each.what, line) not in self._reported:
                    self._reported.add((each.what, line))
                    self._emit(Pattern(each.what, ()), location, made=line)

    def _running(self) -> list[Body]:
        """The functions of the program that are running or that these call, and those that modules call."""
        locator = self._tracer.locator
        starts = []
        for entry in list(self._tracer.registry):
            forward = forward_of(entry)
            if forward is not None and forward.code.co_argcount:
                starts.append(forward._replace(values={**forward.values, forward.code.co_varnames[0]: entry.module()}))
        frame = locator.user_frame(2)
        while frame is not None:
            if locator.is_user_code(frame.f_code):
                starts.insert(0, Body(frame.f_code, frame.f_globals, values_of(frame)))
            frame = frame.f_back
        return self._bodies(starts)

    def _view_lines(self, code: CodeType, dimensions: int) -> Iterator[AssignedLine]:
        """The lines of a function that view a tensor to so many dimensions."""
        syntax = self._tracer.functions.find(code)
        lines = () if syntax is None else view_lines(syntax, dimensions)
        yield from (AssignedLine(code, line) for line in lines)

    def _policy_line(self) -> int:
        """The location of the only line that weights log-probabilities by returns; 0 if some may be negated."""
        tracer = self._tracer
        bodies = self._running()
        syntaxes = [(body.code, syntax) for body in bodies if (syntax := tracer.functions.find_any(body.code))]
        found = [AssignedLine(code, line) for code, syntax in syntaxes for line in policy_products(syntax)]
        if len(found) != 1 or any(may_negate(syntax) for _, syntax in syntaxes):
            return 0
        return tracer.locator.line(found[0])

    def _sample_line(self) -> int:
        """The location of the only line that draws from a distribution without a gradient; 0 if there are several."""
        tracer = self._tracer
        found: dict[tuple[str, int], AssignedLine] = {}
        for body in self._running():
            syntax = tracer.functions.find_any(body.code)
            for line in () if syntax is None else sample_lines(syntax):
                found.setdefault((body.code.co_filename, line), AssignedLine(body.code, line))
        return tracer.locator.line(next(iter(found.values()))) if len(found) == 1 else 0

    def _last_lines(self, code: CodeType) -> Iterator[AssignedLine]:
        """The lines of a function that take the last item of a tensor."""
        syntax = self._tracer.functions.find(code)
        yield from () if syntax is None else (AssignedLine(code, line) for line in last_lines(syntax))

    def _softmax_lines(self, code: CodeType) -> Iterator[AssignedLine]:
        """The lines of a function that compute a softmax over the first dimension."""
        syntax = self._tracer.functions.find(code)
        yield from () if syntax is None else (AssignedLine(code, line) for line in softmax_lines(syntax))

    def _line_of_modules(self, lines_of: Callable[[CodeType], Iterator[AssignedLine]]) -> int:
        """The location of the only such line in the code of modules; 0 if there is not exactly one."""
        bodies = self._bodies(self._forwards())
        found = {(id(each.code), each.line): each for body in bodies for each in lines_of(body.code)}
        return self._tracer.locator.line(next(iter(found.values()))) if len(found) == 1 else 0

    def _line_of(self, find: Callable[[Iterable[Body]], AssignedLine | None]) -> int:
        """The location of a line in the code of modules or in the function that starts the backward pass; else 0."""
        frame = self._tracer.locator.user_frame(2)
        starts = self._forwards() + ([] if frame is None else [body_at(frame)])
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
        self, pattern: Pattern, location: int, weights: tuple[int, ...] = (), made: int = 0, module: int = 0
    ) -> None:
        tracer = self._tracer
        thread = tracer.thread
        event = GraphPattern(
            tracer.now_us(),
            tracer.step,
            module,
            location,
            thread.number,
            thread.stage,
            pattern.what,
            weights,
            pattern.dim,
            pattern.shape,
            pattern.values,
            made,
        )
        tracer.broadcast(event, location, level=INFO, also=(made,) if made else ())


def _softmaxes(code: CodeType) -> Iterator[AssignedLine]:
    return operation_lines(code, "softmax")


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
