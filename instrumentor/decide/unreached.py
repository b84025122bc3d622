"""Functions of a program's other files that nothing in the program calls, such as tests beside a model."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.resolve.unit import SCRIPT, is_main_guard
from instrumentor.source.nodes import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from instrumentor.analysis.facts import Facts
    from instrumentor.resolve.unit import Function, Unit

# Names that may call any function, or import an unknown file.
_CALLING_ANYTHING = frozenset({"eval", "exec", "globals", "__import__"})
_IMPORTING_ANYTHING = frozenset({"import_module", "run_module", "run_path", "exec_module", "load_module"})


def find_unreached(units: Sequence[Unit], facts: Facts) -> frozenset[str]:
    """The keys of top-level functions outside the script that no code which runs mentions.

    A name counts as a mention wherever it may mean the function: as a name in its file or in one that imports it, as an
    attribute of any object, or as a string. Decorated functions count as called.
    """
    search = _Search(units, facts)
    search.run()
    return frozenset(search.unreached)


class _Search:
    """Follows the mentions in code that runs, starting from the top level of all files.

    Attributes:
        unreached: the functions that nothing found so far mentions, by key.
    """

    def __init__(self, units: Sequence[Unit], facts: Facts) -> None:
        self._units = units
        self._facts = facts
        others = (each for unit in units if unit.name != SCRIPT for each in unit.functions.values())
        self.unreached = {each.key: each for each in others if _is_plain(each)}
        self._named: dict[str, list[Function]] = {}
        for function in self.unreached.values():
            self._named.setdefault(function.name, []).append(function)
        self._pending: list[tuple[Unit, Iterable[ast.AST]]] = []

    def run(self) -> None:
        """Remove from `unreached` all functions that are reached."""
        bodies: set[ast.AST] = {each.node for each in self.unreached.values()}
        self._pending = [(unit, _nodes_run(unit, bodies)) for unit in self._units]
        is_settled = False
        while not is_settled:
            while self._pending:
                unit, nodes = self._pending.pop()
                for node in nodes:
                    self._read(unit, node)
            called = [each for each in self.unreached.values() if self._is_called(each)]
            for function in called:
                self._reach(function)
            is_settled = not called

    def _read(self, unit: Unit, node: ast.AST) -> None:
        """Reach the functions that a node may mention."""
        if isinstance(node, ast.Name):
            if node.id in _CALLING_ANYTHING | _IMPORTING_ANYTHING:
                self.unreached.clear()
            for function in self._named.get(node.id, ()):
                if _may_mean(unit, node.id, function):
                    self._reach(function)
        elif isinstance(node, ast.Attribute):
            if node.attr in _IMPORTING_ANYTHING:
                self.unreached.clear()
            self._reach_named(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            self._reach_named(node.value)
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                if each.asname not in (None, each.name):
                    self._reach_named(each.name)

    def _reach_named(self, name: str) -> None:
        for function in self._named.get(name, ()):
            self._reach(function)

    def _reach(self, function: Function) -> None:
        if self.unreached.pop(function.key, None) is not None:
            self._pending.append((function.unit, walk(function.node)))

    def _is_called(self, function: Function) -> bool:
        """Whether code that runs calls a function, or may find it under a computed name."""
        if function.key in self._facts.found_by_any_name:
            return True
        calls = self._facts.calls.get(function.key, {}).values()
        return any(call.function is None or call.function.outermost.key not in self.unreached for call in calls)


def _is_plain(function: Function) -> bool:
    return isinstance(function.node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not function.node.decorator_list


def _may_mean(unit: Unit, name: str, function: Function) -> bool:
    """Whether a name in a file may mean a function of that file or of another."""
    own = unit.functions.get(name)
    if own is function or unit is function.unit:
        return True
    if own is None and name not in unit.classes:
        return True
    # A definition in the file itself takes precedence, unless an import may follow it.
    defined = own.node.lineno if own is not None else unit.classes[name].node.lineno
    return name in unit.imports or any(
        isinstance(each, ast.ImportFrom) and each.names[0].name == "*" and each.lineno > defined
        for each in unit.tree.body
    )


def _nodes_run(unit: Unit, bodies: set[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a file outside the functions in `bodies` and outside code that only runs in the script."""
    pending: list[ast.AST] = [unit.tree]
    while pending:
        node = pending.pop()
        yield node
        for child in ast.iter_child_nodes(node):
            if child in bodies:
                pending.append(child.args)  # type: ignore[attr-defined]
            elif unit.name != SCRIPT and isinstance(child, ast.If) and is_main_guard(child):
                pending += child.orelse
            elif not _is_export_list(child):
                pending.append(child)


def _is_export_list(node: ast.AST) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    return any(isinstance(each, ast.Name) and each.id == "__all__" for each in targets)
