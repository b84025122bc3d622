"""Finds lines by the names that they read: where a model ends with a softmax, where a graph is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from torch import nn

from proxy_wrapper.places.assigned_lines import AssignedLine, named_instructions, variables_behind
from proxy_wrapper.places.outermost_calls import value_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

    from proxy_wrapper.places.called_functions import Body

_PROBABILITIES: Final = frozenset({"softmax", "log_softmax", "sigmoid"})
_LAYERS: Final = (nn.Softmax, nn.LogSoftmax, nn.Sigmoid)
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


def cut_line(frame: FrameType) -> AssignedLine | None:
    """The only line behind the current line of `frame` that cuts a tensor off its graph; None if not exactly one."""
    code = frame.f_code
    lines = {each.line for each in variables_behind(frame)} | {frame.f_lineno}
    found = {each.line for each in named_instructions(code) if each.name in _CUTS and each.line in lines}
    return AssignedLine(code, found.pop()) if len(found) == 1 else None
