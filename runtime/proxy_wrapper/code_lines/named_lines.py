"""Finds lines by the names that they use, such as a softmax, or a `detach` that cuts the graph."""

from __future__ import annotations

import re
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from torch import nn

from proxy_wrapper.code_lines.keyword_lines import keyword_lines
from proxy_wrapper.program_code.assigned_lines import AssignedLine, named_instructions, variables_behind
from proxy_wrapper.program_code.called_functions import Body
from proxy_wrapper.program_code.outermost_calls import value_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

    from proxy_wrapper.program_code.assigned_lines import NamedInstruction

_PROBABILITIES: Final = frozenset({"softmax", "log_softmax", "sigmoid"})
_LAYERS: Final = (nn.Softmax, nn.LogSoftmax, nn.Sigmoid)
_NORMS: Final = frozenset({"norm", "vector_norm"})
_EXPONENTIALS: Final = frozenset({"exp", "exp_"})
_NOISE: Final = frozenset({"randn_like", "randn", "normal", "normal_", "rsample", "Normal"})
_RECONSTRUCTIONS: Final = frozenset(
    {
        *("mse_loss", "MSELoss", "l1_loss", "L1Loss", "smooth_l1_loss", "SmoothL1Loss", "huber_loss", "HuberLoss"),
        *("binary_cross_entropy", "BCELoss", "binary_cross_entropy_with_logits", "BCEWithLogitsLoss"),
    }
)
_ROUNDINGS: Final = frozenset({"round", "floor", "ceil", "trunc", "sign"})
_CLASS_LOSSES: Final = frozenset({"CrossEntropyLoss", "NLLLoss", "cross_entropy", "nll_loss"})
_ERRORS: Final = re.compile(r"_?(adv|advantages?|td_errors?|deltas?)")
_ALL: Final = frozenset({"parameters", "named_parameters", "state_dict"})
_MOVES: Final = frozenset({"copy_", "lerp_", "mul_", "add_", "data"})
_COMPREHENSIONS: Final = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"})
_REQUIRES: Final = "requires_grad"
_LEAVES: Final = frozenset({f".{_REQUIRES}", f".{_REQUIRES}_"})
_FILLS: Final = frozenset({"constant_", "fill_", "ones_"})
_CUTS: Final = frozenset({".detach", ".data", ".item", ".numpy", ".tolist"})


def probability_lines(bodies: Iterable[Body]) -> Iterator[AssignedLine]:
    """The lines that turn scores into probabilities, by a function or by one of PyTorch's layers."""
    for body in bodies:
        found: dict[int, None] = {}
        before = ""
        for each in named_instructions(body.code):
            name = each.name.lstrip(".")
            is_attribute = before in body.values and each.name.startswith(".") and not each.is_store
            value: Any = value_of((before, each.name), body) if is_attribute else None
            if not each.is_store and (name in _PROBABILITIES or type(value) in _LAYERS):
                found[each.line] = None
            before = each.name
        yield from (AssignedLine(body.code, line) for line in found)


def norm_line(bodies: Iterable[Body]) -> AssignedLine | None:
    """The only line of some functions that computes a norm, or else divides by one; None if not exactly one."""
    bodies = list(bodies)
    return _only(_reading_lines(bodies, _NORMS)) or _only(_reading_lines(bodies, frozenset({"normalize"})))


def scale_line(bodies: Iterable[Body]) -> AssignedLine | None:
    """The only line with an exponential in the functions that draw noise; None if there is not exactly one."""
    drawing = [
        body for body in bodies if any(each.name.lstrip(".") in _NOISE for each in named_instructions(body.code))
    ]
    return _only(_reading_lines(drawing, _EXPONENTIALS))


def reconstruction_line(bodies: Iterable[Body]) -> AssignedLine | None:
    """The only line that computes an error, in functions that read an exponential or else in all; None if unknown."""
    bodies = list(bodies)
    near = [body for body in bodies if any(_reading_lines([body], _EXPONENTIALS))]
    return _only(_reading_lines(near, _RECONSTRUCTIONS)) or _only(_reading_lines(bodies, _RECONSTRUCTIONS))


def error_line(bodies: Iterable[Body]) -> AssignedLine | None:
    """The only line that assigns a variable named like the error of a critic; None if there is not exactly one."""
    return _only(
        AssignedLine(body.code, each.line)
        for body in bodies
        for each in named_instructions(body.code)
        if each.is_store and _ERRORS.fullmatch(each.name)
    )


def positive_weight_line(bodies: Iterable[Body]) -> AssignedLine | None:
    """The only line that passes `pos_weight` by keyword; None if there is not exactly one."""
    return _only(
        AssignedLine(body.code, line) for body in bodies for line in keyword_lines(body.code, frozenset({"pos_weight"}))
    )


def ignored_class_line(bodies: Iterable[Body]) -> AssignedLine | None:
    """The only line that passes `ignore_index` by its name; None if there is not exactly one."""
    return _only(
        AssignedLine(body.code, line)
        for body in bodies
        for line in keyword_lines(body.code, frozenset({"ignore_index"}))
    )


def class_weight_line(bodies: Iterable[Body]) -> AssignedLine | None:
    """The only line that makes or calls a loss of classes; None if there is not exactly one."""
    return _only(_reading_lines(bodies, _CLASS_LOSSES))


def rounding_lines(code: CodeType) -> Iterator[AssignedLine]:
    """The lines of a function that call `round`, or another function without a derivative."""
    return _reading_lines([Body(code, {})], _ROUNDINGS)


def average_line(bodies: Iterable[Body]) -> AssignedLine | None:
    """The only line that updates a tensor in the functions that read all parameters; None if not exactly one."""
    reading = (body for body in bodies if any(_reading_lines([body], _ALL)))
    return _only(
        AssignedLine(body.code, each.line)
        for body in reading
        for each in named_instructions(body.code)
        if each.name.startswith(".") and each.name[1:] in _MOVES
    )


def call_line(bodies: Iterable[Body], name: str) -> AssignedLine | None:
    """The only line in several functions that reads a name, such as that of a class; None if there are several."""
    return _only(_reading_lines(bodies, frozenset({name})))


def filling_line(bodies: Iterable[Body]) -> AssignedLine | None:
    """The only line that fills a tensor with a number; None if there is not exactly one."""
    return _only(_reading_lines(bodies, _FILLS))


def _reading_lines(bodies: Iterable[Body], names: frozenset[str]) -> Iterator[AssignedLine]:
    """The lines of some functions that read a variable or an attribute with one of several names."""
    for body in bodies:
        for each in named_instructions(body.code):
            if not each.is_store and each.name.lstrip(".") in names:
                yield AssignedLine(body.code, each.line)


def _only(lines: Iterable[AssignedLine]) -> AssignedLine | None:
    """The only one of some lines; None if there is not exactly one."""
    found = {(id(each.code), each.line): each for each in lines}
    return next(iter(found.values())) if len(found) == 1 else None


def leaf_line(bodies: Iterable[Body]) -> AssignedLine | None:
    """The only line in several functions that makes a tensor require a gradient; None if there is not exactly one."""
    found: list[AssignedLine] = []
    for code in (part for body in bodies for part in _with_comprehensions(body.code)):
        lines = keyword_lines(code, frozenset({_REQUIRES}))
        lines |= {each.line for each in named_instructions(code) if each.name in _LEAVES and _is_act(each)}
        found += [AssignedLine(code, line) for line in lines]
    return _only(found)


def _with_comprehensions(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of the comprehensions in it, which have code of their own before Python 3.12."""
    yield code
    yield from (each for each in code.co_consts if isinstance(each, CodeType) and each.co_name in _COMPREHENSIONS)


def _is_act(instruction: NamedInstruction) -> bool:
    """Whether an instruction that names an attribute assigns it, or is of a method that changes it."""
    return instruction.is_store or instruction.name.endswith("_")


def cut_line(frame: FrameType) -> AssignedLine | None:
    """The only line that cuts a tensor off its graph, among those behind the current line; None if not exactly one."""
    code = frame.f_code
    lines = {each.line for each in variables_behind(frame)} | {frame.f_lineno}
    found = {each.line for each in named_instructions(code) if each.name in _CUTS and each.line in lines}
    return AssignedLine(code, found.pop()) if len(found) == 1 else None
