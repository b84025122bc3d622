"""What functions read from enclosing scopes, and which functions only plain calls reach.

For a function of the second kind, the enclosing names are additional parameters: each call passes their current values.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from instrumentor.resolve.unit import SCRIPT
from instrumentor.source.nodes import all_parameters, children, walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from instrumentor.resolve.unit import Function, Unit

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef)
# Nodes without subexpressions that belong to the enclosing code.
_CLOSED = (ast.Name, ast.Constant, *_SCOPES)
# Nodes that bind names without having them as `ast.Name` nodes.
_BINDING = (
    *_SCOPES, ast.Import, ast.ImportFrom, ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping
)  # fmt: skip
_TABLES = (ast.Dict, ast.List, ast.Tuple)
_DEFERRING = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)


class OutsideNames:
    """The names in a script's functions, as its text has them. Results are cached."""

    def __init__(self) -> None:
        self._names: dict[str, _Names] = {}
        self._owners: dict[str, dict[str, str]] = {}
        self._plain: dict[str, bool] | None = None
        self._is_plain: dict[str, bool] = {}
        self._at_top: dict[str, frozenset[str]] = {}
        self._tables: dict[str, frozenset[str]] = {}

    def of(self, function: Function) -> Mapping[str, str]:
        """The names of enclosing scopes that a function reads or declares, with the keys of these scopes.

        Empty for functions that may be suspended: other code may change the names meanwhile.
        """
        owners = self._owners.get(function.key)
        if owners is None:
            names = sorted(self._of(function).outside) if self.is_lasting(function) else ()
            found = {name: self.owner(function, name) for name in names}
            owners = self._owners[function.key] = {name: owner for name, owner in found.items() if owner is not None}
        return owners

    def is_lasting(self, function: Function) -> bool:
        """Whether a function of the script always runs from start to end without being suspended."""
        return function.unit.name == SCRIPT and not self._of(function).is_deferring

    def owner(self, function: Function, name: str) -> str | None:
        """The key of the enclosing scope that has a name of a function; None if the name is local.

        None too if that scope may run on before the function ends.
        """
        names = self._of(function)
        if name in names.own or name in names.hiding:
            return None
        above = function.parent
        while above is not None:
            names = self._of(above)
            if name in names.hiding:
                return None
            if name in names.own:
                return None if names.is_deferring else above.key
            above = above.parent
        return function.unit.name

    def is_stored_at_top(self, unit: Unit, name: str) -> bool:
        """Whether a statement at the top level of a file stores to a name."""
        found = self._at_top.get(unit.name)
        if found is None:
            stored = (node for node in _own_nodes(unit.tree) if isinstance(node, ast.Name))
            found = frozenset(node.id for node in stored if isinstance(node.ctx, ast.Store))
            self._at_top[unit.name] = found
        return name in found

    def is_table_at_top(self, unit: Unit, name: str) -> bool:
        """Whether the top level of a file binds a name to a display that may contain functions or classes."""
        found = self._tables.get(unit.name)
        if found is None:
            found = frozenset(target.id for node in unit.tree.body for target in _table_targets(node))
            self._tables[unit.name] = found
        return name in found

    def is_plain(self, function: Function) -> bool:
        """Whether all uses of a function are calls by its name, so that all calls are known."""
        found = self._is_plain.get(function.key)
        if found is None:
            found = self._is_plain[function.key] = self._find_out_is_plain(function)
        return found

    def _find_out_is_plain(self, function: Function) -> bool:
        node = function.node
        if not isinstance(node, ast.FunctionDef) or node.decorator_list or not self.is_lasting(function):
            return False
        if isinstance(function.unit.parents.get(node), ast.ClassDef):
            return False
        if self._plain is None:
            self._plain = _find_plain(function.unit)
        return self._plain.get(node.name, False)

    def _of(self, function: Function) -> _Names:
        found = self._names.get(function.key)
        if found is None:
            found = self._names[function.key] = _Names(function)
        return found


class _Names:
    """The names in one function's own code.

    Attributes:
        is_deferring: whether the function may be suspended.
        own: its parameters and the names that it binds.
        outside: the names that it reads or declares and that are not its own.
    """

    def __init__(self, function: Function) -> None:
        own = {each.arg for each in all_parameters(function.node.args)}
        read: set[str] = set()
        shared: set[str] = set()
        self._generators: list[ast.comprehension] = []
        self.is_deferring = isinstance(function.node, ast.AsyncFunctionDef)
        for node in _own_nodes(function.node):
            if isinstance(node, ast.Name):
                (read if isinstance(node.ctx, ast.Load) else own).add(node.id)
            elif isinstance(node, ast.comprehension):
                self._generators.append(node)
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                shared.update(node.names)
            elif isinstance(node, _BINDING):
                own.update(_bound_by(node))
            elif isinstance(node, _DEFERRING):
                self.is_deferring = True
        self.own = frozenset(own - shared)
        self.outside = frozenset((read | shared) - self.own)

    @cached_property
    def hiding(self) -> frozenset[str]:
        """The names that its comprehensions bind."""
        targets = (each for generator in self._generators for each in walk(generator.target))
        return frozenset(each.id for each in targets if isinstance(each, ast.Name))


def names_bound_in(body: ast.ClassDef) -> frozenset[str]:
    """The names that a class body binds, without those of nested functions and classes."""
    found: set[str] = set()
    for node in _own_nodes(body):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, _BINDING):
            found.update(_bound_by(node))
    return frozenset(found)


def _own_nodes(
    scope: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
) -> list[ast.AST]:
    """The nodes of a scope's own code, without that of nested functions and classes."""
    found: list[ast.AST] = [scope.body] if isinstance(scope, ast.Lambda) else [*scope.body]
    for node in found:
        if not isinstance(node, _CLOSED):
            found += children(node)
    return found


def _table_targets(node: ast.stmt) -> list[ast.Name]:
    """The names that a statement binds to a list, tuple or dict display with names in it."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or not isinstance(node.value, _TABLES):
        return []
    held = node.value.values if isinstance(node.value, ast.Dict) else node.value.elts
    if not any(isinstance(each, (ast.Name, ast.Attribute, ast.Lambda)) for each in held):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [each for each in targets if isinstance(each, ast.Name)]


def _bound_by(node: ast.AST) -> list[str]:
    """The names that a node binds without having them as `ast.Name` nodes."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [each.asname or each.name.partition(".")[0] for each in node.names]
    if isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return [node.name] if node.name is not None else []
    if isinstance(node, ast.MatchMapping):
        return [node.rest] if node.rest is not None else []
    return []


def _find_plain(unit: Unit) -> dict[str, bool]:
    """For each function name, whether it is defined once, only ever called, and called at least once."""
    plain: dict[str, bool] = {}
    called: set[str] = set()
    for function in unit.function_of.values():
        if not isinstance(function.node, ast.Lambda):
            plain[function.node.name] = function.node.name not in plain
    for node, above in unit.parents.items():
        if isinstance(node, ast.Name):
            if isinstance(above, ast.Call) and above.func is node:
                called.add(node.id)
            else:
                plain.pop(node.id, None)
        elif isinstance(node, ast.arg):
            plain.pop(node.arg, None)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            for name in node.names:
                plain.pop(name, None)
        elif isinstance(node, _BINDING) and not isinstance(node, _FUNCTIONS):
            for name in _bound_by(node):
                plain.pop(name, None)
    return {name: is_single and name in called for name, is_single in plain.items()}
