"""Finds the line of a function that counts how often the output of a model equals a variable.

Nothing is run. The output is followed only through what keeps its shape, or takes the index of the largest score of
each row, and only through variables that the innermost loop, or the function, assigns once. One variable may select
elements of both: `(model(x)[mask] > 0) == y[mask]`.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.program_code.comparisons import counted_comparison
from proxy_wrapper.program_code.imported_modules import FUNCTIONAL, TORCH, USUAL, module_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_KEEPING: Final = frozenset(
    {"sigmoid", "round", "gt", "ge", "float", "int", "long", "bool", "double", "detach", "cpu", "cuda", "clone", "data"}
)
"""Functions, methods and attributes that keep the shape of a tensor."""
_LIBRARIES: Final = frozenset({TORCH, FUNCTIONAL})
_ROWS: Final = frozenset({"1", "-1", "dim=1", "dim=-1", "axis=1", "axis=-1"})
"""Arguments of `argmax` that select the dimension of classes."""


class ComparedOutput(NamedTuple):
    """A line that counts how often an output equals a variable.

    Attributes:
        line: the line.
        variable: the variable.
        is_index: whether the output was replaced by the index of the largest score of each row.
        mask: the variable that selects elements of both; "" if there is none.
    """

    line: int
    variable: str
    is_index: bool
    mask: str = ""


class _Part(NamedTuple):
    """What an expression is computed from, whether by the index of the largest of each row, and what selects of it."""

    source: ast.expr
    is_index: bool = False
    mask: str = ""

    def within(self, source: ast.expr, is_index: bool, mask: str) -> _Part | None:
        """The part of another source that this is, if its own source is that part; None for one of two kinds."""
        if (self.is_index and is_index) or (self.mask and mask):
            return None
        return _Part(source, self.is_index or is_index, self.mask or mask)


def compared_output(
    function: ast.AST, line: int, is_model: Callable[[ast.expr], bool], modules: Mapping[str, str] = USUAL
) -> ComparedOutput | None:
    """The line that counts how often the output of the model called at a line equals a variable; None for no line.

    Args:
        function: the syntax of the function, or of the script whose code calls the model.
        line: the line that calls the model.
        is_model: whether an expression is the model.
        modules: the modules that its file imports, by the names that it gives them.
    """
    around = _innermost(function, line)
    stores = _stores(around)
    outputs: dict[str, _Part] = {}

    def found(value: ast.expr) -> _Part | None:
        """The part of the output that an expression is; None for another one."""
        part = _stripped(value, modules)
        source = part.source
        if isinstance(source, ast.Name) and source.id in outputs:
            return part.within(*outputs[source.id])
        is_here = isinstance(source, ast.Call) and source.lineno <= line <= (source.end_lineno or source.lineno)
        return part if isinstance(source, ast.Call) and is_here and is_model(source.func) else None

    for target, value in _assignments(around):
        part = found(value)
        if part is not None and len(stores[target]) == 1:
            outputs[target] = part
    for node in ast.walk(around):
        for output, labels in _both_ways(counted_comparison(node)):
            part, other = found(output), _stripped(labels, modules)
            if part is None or other.is_index or other.mask != part.mask or not isinstance(other.source, ast.Name):
                continue
            read = {other.source.id, part.mask}
            if read.isdisjoint(outputs) and not any(
                line <= each <= output.lineno for name in read for each in stores.get(name, ())
            ):
                return ComparedOutput(output.lineno, other.source.id, part.is_index, part.mask)
    return None


def _both_ways(sides: list[ast.expr]) -> Iterator[tuple[ast.expr, ast.expr]]:
    if sides:
        yield sides[0], sides[1]
        yield sides[1], sides[0]


def _innermost(function: ast.AST, line: int) -> ast.AST:
    """The innermost loop around a line, or the function."""
    loops = [
        node
        for node in ast.walk(function)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(loops, key=lambda loop: loop.lineno, default=function)


def _stores(around: ast.AST) -> dict[str, list[int]]:
    """The lines that assign each variable."""
    found: dict[str, list[int]] = {}
    for node in ast.walk(around):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.setdefault(node.id, []).append(node.lineno)
    return found


def _assignments(around: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Variables with what they are assigned, in order; for `_, index = torch.max(...)`, the call is an `argmax`."""
    nodes = [node for node in ast.walk(around) if isinstance(node, ast.Assign) and len(node.targets) == 1]
    for node in sorted(nodes, key=lambda each: each.lineno):
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Name):
            yield target.id, value
        elif isinstance(target, ast.Tuple) and isinstance(target.elts[-1], ast.Name):
            call = _argmax_of(value)
            if call is not None:
                yield target.elts[-1].id, call


def _argmax_of(value: ast.expr) -> ast.expr | None:
    """The call of `argmax` that gives the indices that a call of `max` gives; None for other expressions."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.func.attr != "max":
        return None
    function = ast.Attribute(value.func.value, "argmax", ast.Load())
    return ast.copy_location(ast.Call(function, value.args, value.keywords), value)


def _indices_of(value: ast.expr) -> ast.expr:
    """An expression; `x.argmax(1)` for `x.max(1)[1]` and `x.max(1).indices`."""
    is_second = isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant) and value.slice.value == 1
    is_indices = isinstance(value, ast.Attribute) and value.attr == "indices"
    found = _argmax_of(value.value) if isinstance(value, (ast.Subscript, ast.Attribute)) else None
    return value if found is None or not (is_second or is_indices) else found


def _stripped(value: ast.expr, modules: Mapping[str, str]) -> _Part:
    """An expression without what keeps its shape, takes the index of the largest of each row, or selects of it."""
    is_index, mask = False, ""
    while True:
        value = _indices_of(value)
        if isinstance(value, ast.Compare) and len(value.ops) == 1 and isinstance(value.comparators[0], ast.Constant):
            value = value.left
        elif isinstance(value, ast.Attribute) and value.attr in _KEEPING:
            value = value.value
        elif isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Name) and not mask:
            mask = value.slice.id
            value = value.value
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            name, base, given = value.func.attr, value.func.value, list(value.args)
            if module_of(base, modules) in _LIBRARIES and given:
                base = given.pop(0)
            rest = {ast.unparse(each) for each in (*given, *value.keywords)}
            if name == "argmax" and len(rest) == 1 and rest <= _ROWS and not is_index:
                is_index = True
            elif name not in _KEEPING and name != "to":
                break
            value = base
        else:
            break
    return _Part(value, is_index, mask)
