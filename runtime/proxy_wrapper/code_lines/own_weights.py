"""Finds why a module loads its own weights: by a second name for it, or from a state that was stored without a copy."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.program_code.assigned_lines import AssignedLine
from proxy_wrapper.program_code.called_functions import Body
from proxy_wrapper.program_code.frame_variables import values_of
from proxy_wrapper.program_code.outermost_calls import value_of
from proxy_wrapper.program_code.syntax import is_variable, last_name, nodes_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType, FrameType

_COPYING: Final = frozenset({"deepcopy", "clone", "copy_", "save", "dump", "load_state_dict"})
"""Functions that copy the tensors of a state, or load it at once."""
_RETURN_SELF: Final = frozenset({"to", "cpu", "cuda", "float", "double", "half", "eval", "train", "requires_grad_"})
_NO_MODELS: Final = re.compile(r".*(opt|sched|scaler).*", re.IGNORECASE)


class OwnWeights(NamedTuple):
    """The line that explains why a module loads its own weights, and the two names of the module, if it has two."""

    at: AssignedLine | None
    names: tuple[str, ...] = ()


def explain_own_weights(
    frame: FrameType,
    module: Any,
    bodies: Iterable[Body],
    syntax_of: Callable[[CodeType], ast.FunctionDef | ast.Module | None],
) -> OwnWeights:
    """The only line that gives a module a second name or stores its state, if there is exactly one.

    Args:
        frame: the function that loads the weights, at that line.
        module: the module.
        bodies: the functions of the program in which the line may be.
        syntax_of: finds the syntax of a function.
    """
    parsed = [(body.code, nodes_within(syntax)) for body in bodies if (syntax := syntax_of(body.code)) is not None]
    names = _names_of(module, frame, syntax_of(frame.f_code))
    if len(names) > 1:
        named = [AssignedLine(code, line) for code, nodes in parsed for line in _naming(nodes, names)]
        return OwnWeights(named[0], names) if len(named) == 1 else OwnWeights(None)
    stored = [AssignedLine(code, line) for code, nodes in parsed for line in _storing(nodes)]
    return OwnWeights(stored[0] if len(stored) == 1 else None)


def _names_of(module: Any, frame: FrameType, syntax: ast.AST | None) -> tuple[str, ...]:
    """The expressions in the current line of a function that are the module."""
    body = Body(frame.f_code, frame.f_globals, values_of(frame))
    found: dict[str, None] = {}
    for node in [] if syntax is None else nodes_within(syntax):
        path = _path(node)
        is_here = isinstance(node, ast.expr) and node.lineno <= frame.f_lineno <= (node.end_lineno or 0)
        if path and is_here and value_of(path, body) is module:
            found["".join(path)] = None
    return tuple(found)


def _path(node: ast.AST) -> tuple[str, ...]:
    """The parts of a dotted name, as `value_of` takes them; () for other expressions."""
    if isinstance(node, ast.Name):
        return (node.id,)
    before = _path(node.value) if isinstance(node, ast.Attribute) else ()
    return (*before, f".{node.attr}") if before and isinstance(node, ast.Attribute) else ()


def _naming(nodes: Iterable[ast.AST], names: tuple[str, ...]) -> Iterator[int]:
    """The lines that assign one of two names to the other, or one value to both: the second of these."""
    ends = {name.rpartition(".")[2] for name in names}
    of_value: dict[str, str] = {}
    for node in nodes:
        if not isinstance(node, ast.Assign):
            continue
        assigned = {last_name(target) for target in node.targets if last_name(target) in ends}
        value = _itself(node.value)
        is_other = last_name(value) in ends - assigned
        if assigned and is_variable(value):
            before = of_value.setdefault(ast.unparse(value), next(iter(assigned)))
            is_other |= before not in assigned
        if len(assigned) > 1 or (assigned and is_other):
            yield node.lineno


def _itself(value: ast.expr) -> ast.expr:
    """An expression without calls of the methods of a module that return the module."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _RETURN_SELF:
        value = value.func.value
    return value


def _storing(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """The lines that store the state of a model as it is."""
    for node in nodes:
        if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)) or node.value is None:
            continue
        calls = [part for part in ast.walk(node.value) if isinstance(part, ast.Call)]
        states = [
            call
            for call in calls
            if isinstance(call.func, ast.Attribute)
            and call.func.attr == "state_dict"
            and not _NO_MODELS.fullmatch(last_name(call.func.value))
        ]
        if states and _COPYING.isdisjoint(last_name(call.func) for call in calls):
            yield states[0].lineno
