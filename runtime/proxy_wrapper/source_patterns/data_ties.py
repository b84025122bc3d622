"""Finds assignments that give a parameter the memory of another one.

self.decoder.weight.data = self.encoder.weight.data
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

_DATA: Final = "data"
_VIEWS: Final = frozenset({"t", "transpose", "permute", "detach", "view"})


def data_ties(scope: Scope) -> Iterator[Pattern]:
    """The lines of a function that do this, with both parameters. They may be meant as copies."""
    if _DATA not in scope.words:
        return
    for target, value in scope.assignments:
        if isinstance(target, ast.Attribute) and target.attr == _DATA:
            one, other = ast.unparse(target.value), ast.unparse(_memory_of(value))
            if isinstance(_memory_of(value), ast.Attribute) and one != other:
                yield Pattern(TIED, target.lineno, (one, other))


def _memory_of(value: ast.expr) -> ast.expr:
    """The tensor of which an expression is a view: `a` of `a`, `a.data`, `a.data.t()`."""
    while True:
        if isinstance(value, ast.Call) and last_name(value.func) in _VIEWS and isinstance(value.func, ast.Attribute):
            value = value.func.value
        elif isinstance(value, ast.Attribute) and value.attr in (_DATA, "T"):
            value = value.value
        else:
            return value
