"""Finds lines that give a parameter the memory of another one, or its values.

self.decoder.weight.data = self.encoder.weight.data
self.decoder.weight.data.copy_(self.encoder.weight)
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import last_name
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.program_code.syntax import Scope

TIED: Final = "tied-by-data"
COPIED: Final = "copied-by-data"

_DATA: Final = "data"
_COPIES: Final = frozenset({"clone", "copy_", "Parameter", "deepcopy", "contiguous"})
_WEIGHTS: Final = ("weight", "bias")
_VIEWS: Final = frozenset({"t", "transpose", "permute", "detach", "view"})


def data_ties(scope: Scope) -> Iterator[Pattern]:
    """The lines of a function that do this, with both parameters. They may be meant as copies."""
    if _DATA in scope.words:
        for target, value in scope.assignments:
            if isinstance(target, ast.Attribute) and target.attr == _DATA:
                one, other = ast.unparse(target.value), ast.unparse(_memory_of(value))
                if isinstance(_memory_of(value), ast.Attribute) and one != other:
                    yield Pattern(TIED, target.lineno, (one, other))
    if _COPIES.isdisjoint(scope.words):
        return
    copies = [(call.func.value, call) for call in scope.calls if isinstance(call.func, ast.Attribute)]
    copies = [each for each in copies if last_name(each[1].func) == "copy_"]
    for target, value in [*copies, *scope.assignments]:
        to, of = _memory_of(target), _copied(value)
        if all(isinstance(each, ast.Attribute) and each.attr in _WEIGHTS for each in (to, of)):
            names = (ast.unparse(to), ast.unparse(of))
            if names[0] != names[1]:
                yield Pattern(COPIED, target.lineno, names)


def _copied(value: ast.expr) -> ast.expr:
    """The tensor that an expression copies: `a` of `a.data.clone()`, `Parameter(a.clone())` and `b.copy_(a)`."""
    is_copy = False
    while isinstance(value, ast.Call) and last_name(value.func) in _COPIES:
        is_copy = True
        has_given = bool(value.args)
        value = _memory_of(
            value.args[0] if has_given or not isinstance(value.func, ast.Attribute) else value.func.value
        )
    return value if is_copy else ast.Constant(None)


def _memory_of(value: ast.expr) -> ast.expr:
    """The tensor of which an expression is a view: `a` of `a`, `a.data`, `a.data.t()`."""
    while True:
        if isinstance(value, ast.Call) and last_name(value.func) in _VIEWS and isinstance(value.func, ast.Attribute):
            value = value.func.value
        elif isinstance(value, ast.Attribute) and value.attr in (_DATA, "T"):
            value = value.value
        else:
            return value
