"""Models that functions make for their callers: these wrap them, in other files, so nothing is wrapped here."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.resolve.bindings import function_around
from instrumentor.resolve.units import Function

if TYPE_CHECKING:
    from collections.abc import Iterable

    from instrumentor.resolve.units import Unit
    from instrumentor.screening.names import Names

_REPEATED = (
    ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Try,
)  # fmt: skip


class HandedOut:
    """Tells whether all that some calls make leaves the file by the functions that they stand in.

    Args:
        unit: the script.
        names: what the script's names stand for.
        calls: all calls outside module classes.
    """

    def __init__(self, unit: Unit, names: Names, calls: Iterable[ast.Call]) -> None:
        self._unit = unit
        self._names = names
        self._calls = list(calls)

    def covers(self, makers: Iterable[ast.Call]) -> bool:
        """Whether each of these calls does nothing but give its function what it returns, whoever calls that."""
        pending, seen = list(makers), set()
        while pending:
            node = pending.pop()
            function = self._function_returning(node)
            if function is None:
                return False
            if function not in seen:
                seen.add(function)
                if self._is_read_otherwise(function):
                    return False
                pending.extend(each for each in self._calls if self._called(each) is function)
        return True

    def _called(self, node: ast.Call) -> ast.AST | None:
        meaning = self._names.meaning(node.func)
        return meaning.node if isinstance(meaning, Function) else None

    def _function_returning(self, node: ast.Call) -> ast.FunctionDef | None:
        """The function of the file's top which returns what a call gives, once, and does nothing else with it."""
        function = function_around(self._unit, node)
        if not isinstance(function, ast.FunctionDef) or self._unit.parents[function] is not self._unit.tree:
            return None
        above: ast.AST = node
        while above is not function:
            above = self._unit.parents[above]
            if isinstance(above, _REPEATED):
                return None
        if any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in ast.walk(function)):
            return None
        # Decorators of the project pass on what a function gives, or register it; a library's may keep what it gave.
        if not all(isinstance(self._names.meaning(each), Function) for each in function.decorator_list):
            return None
        statement = self._unit.parents[node]
        is_returned = isinstance(statement, ast.Return) or self._is_only_returned(statement, function)
        return function if is_returned else None

    def _is_only_returned(self, statement: ast.AST, function: ast.FunctionDef) -> bool:
        """Whether a statement gives something a name of which a function makes no use but to return it."""
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return False
        target = statement.targets[0]
        if not isinstance(target, ast.Name):
            return False
        uses = [
            node
            for node in ast.walk(function)
            if (isinstance(node, ast.Name) and node.id == target.id and node is not target)
            or (isinstance(node, (ast.arg, ast.Global, ast.Nonlocal)) and _mentions(node, target.id))
        ]
        return bool(uses) and all(
            isinstance(node, ast.Name)
            and isinstance(self._unit.parents[node], ast.Return)
            and function_around(self._unit, node) is function  # not one within it, which may keep hold of it
            for node in uses
        )

    def _is_read_otherwise(self, function: ast.FunctionDef) -> bool:
        """Whether a function is read by its name and not called there, or stands for something else somewhere."""
        return any(
            isinstance(node, ast.Name)
            and node.id == function.name
            and not (isinstance(above := self._unit.parents[node], ast.Call) and above.func is node)
            for node in self._unit.parents
        )


def _mentions(node: ast.arg | ast.Global | ast.Nonlocal, name: str) -> bool:
    return node.arg == name if isinstance(node, ast.arg) else name in node.names
