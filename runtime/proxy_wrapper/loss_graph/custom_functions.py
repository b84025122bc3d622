"""Finds functions of the program whose `backward` does not read the gradient that it is given."""

from __future__ import annotations

import dis
import inspect
import math
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from torch.autograd.function import BackwardCFunction

from proxy_wrapper.loss_graph.nodes import shape_of
from proxy_wrapper.loss_graph.pattern import Pattern
from proxy_wrapper.program_code.assigned_lines import MOST_BYTES, AssignedLine
from proxy_wrapper.program_code.outermost_calls import lines_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.loss_graph.graph import LossGraph

_LOCAL: Final = "_FAST"
_RETURNS: Final = frozenset({"RETURN_VALUE", "RETURN_CONST"})


def gradients_not_read(graph: LossGraph) -> Iterator[Pattern]:
    """The functions that compute their gradient from saved values alone, once each.

    A function with a single number as its result is exempt: if that is the loss, the gradient of it is 1.
    """
    reported = set()
    for node in graph.named(name for name in graph.names if not name[-1].isdigit()):
        code = _backward_of(node)
        if code is None or code in reported or math.prod(shape_of(node)) <= 1:
            continue
        line = _returning_line(code)
        if line:
            reported.add(code)
            yield Pattern("gradient-not-read", shape_of(node), line=AssignedLine(code, line))


def _backward_of(node: Any) -> CodeType | None:
    """The code of the `backward` that a node calls; None for nodes of torch's own functions."""
    if not isinstance(node, BackwardCFunction):
        return None
    backward = inspect.unwrap(getattr(getattr(node, "_forward_cls", None), "backward", None) or _backward_of)
    code = getattr(backward, "__code__", None)
    return code if type(code) is CodeType and code.co_argcount and len(code.co_code) <= MOST_BYTES else None


def _returning_line(code: CodeType) -> int:
    """The line at which a `backward` returns what it computed without the gradient; 0 if it reads the gradient.

    If there are several, it is the line of its definition. A `backward` that reads no saved value either, such as
    `return None`, has no gradient on purpose.
    """
    context, *given = code.co_varnames[: code.co_argcount + bool(code.co_flags & inspect.CO_VARARGS)]
    instructions = list(dis.get_instructions(code))
    read = {
        name
        for each in instructions
        if _LOCAL in each.opname and each.opname.startswith("LOAD")
        for name in (each.argval if isinstance(each.argval, tuple) else (each.argval,))
    }
    if context not in read or not given or not read.isdisjoint(given) or code.co_cellvars:
        return 0
    lines = {
        line for each, line in zip(instructions, lines_of(code, instructions), strict=True) if each.opname in _RETURNS
    }
    return lines.pop() if len(lines) == 1 else code.co_firstlineno
