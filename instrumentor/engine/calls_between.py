"""Finds the top-level functions of the given files that other given files call, from imports alone."""

from __future__ import annotations

import ast
import os
import warnings
from typing import TYPE_CHECKING

import msgspec

from instrumentor.nesting import room_for_nesting
from instrumentor.resolve.facts_cache import FactsCache, version_of
from instrumentor.source import nodes
from instrumentor.source.nodes import walk
from instrumentor.source.undo import original_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from instrumentor.resolve.search_path import SearchPaths

_LARGEST = 4_000_000
_IMPORT = b"import"


class CallFacts(msgspec.Struct, array_like=True, frozen=True):
    """A file's calls of other files' functions.

    Attributes:
        functions: the names of its own top-level functions.
        imports: the meaning of its top-level names: a module and a name in it, as in `from module import name`.
        stars: the modules that it star-imports.
        calls: the functions called anywhere, as a module and a name in it.
    """

    functions: tuple[str, ...] = ()
    imports: tuple[tuple[str, str, str], ...] = ()
    stars: tuple[str, ...] = ()
    calls: tuple[tuple[str, str], ...] = ()


class CallsBetween:
    """The functions of each given file that other given files call.

    A function counts as called if a call uses the name that it was imported as. A call through a registry or a value
    does not count.

    Args:
        paths: the files, absolute.
        search: finds the folders that a file's imports start from.
        cache: the folder in which the facts about files are kept; None to keep nothing.
    """

    def __init__(self, paths: Iterable[str], search: SearchPaths, cache: Path | None) -> None:
        self._search = search
        self._disk = None if cache is None else FactsCache(cache, "calls", _version(), CallFacts)
        self._facts: dict[str, CallFacts] = {}
        self._roots: dict[str, tuple[str, ...]] = {}
        self._places: dict[tuple[str, str], str | None] = {}
        for path in paths:
            self._facts[path] = self._read(path)
        self._called: dict[str, set[str]] = {}
        for path, facts in self._facts.items():
            for module, name in facts.calls:
                target = self._file_of(path, module)
                found = None if target is None else self._definition(target, name)
                if found is not None and found[0] != path:
                    self._called.setdefault(found[0], set()).add(found[1])

    def of(self, path: str) -> tuple[str, ...]:
        """The names of a file's top-level functions that other files call."""
        return tuple(sorted(self._called.get(path, ())))

    def _read(self, path: str) -> CallFacts:
        try:
            if os.path.getsize(path) > _LARGEST:  # noqa: PTH202
                return CallFacts()
            with open(path, "rb") as stream:  # noqa: PTH123
                content = stream.read()
        except (OSError, ValueError):
            return CallFacts()
        known = None if self._disk is None else self._disk.load(content)
        if known is None:
            known = read_calls(content)
            if self._disk is not None:
                self._disk.store(content, known)
        return known

    def _definition(self, path: str, name: str) -> tuple[str, str] | None:
        """The file and name of the function that a file's name refers to, following imports."""
        pending, seen = [(path, name)], set()
        while pending:
            at = pending.pop()
            facts = self._facts.get(at[0])
            if facts is None or at in seen:
                continue
            seen.add(at)
            if at[1] in facts.functions:
                return at
            sources = [(module, other) for own, module, other in facts.imports if own == at[1]]
            sources += [(module, at[1]) for module in facts.stars]
            targets = [(self._file_of(at[0], module), other) for module, other in sources]
            pending.extend((target, other) for target, other in reversed(targets) if target is not None)
        return None

    def _file_of(self, path: str, module: str) -> str | None:
        """The given file that a module name refers to when `path` imports it."""
        directory = os.path.dirname(path)  # noqa: PTH120
        key = (directory, module)
        if key not in self._places:
            self._places[key] = next(
                (each for each in self._candidates(directory, module) if each in self._facts), None
            )
        return self._places[key]

    def _candidates(self, directory: str, module: str) -> Iterator[str]:
        plain = module.lstrip(".")
        level = len(module) - len(plain)
        if level:
            roots: tuple[str, ...] = (os.path.normpath(os.path.join(directory, *[os.pardir] * (level - 1))),)  # noqa: PTH118
        else:
            if directory not in self._roots:
                found = self._search.roots(directory)
                self._roots[directory] = tuple(os.path.normpath(os.path.join(directory, each)) for each in found)  # noqa: PTH118
            roots = self._roots[directory]
        for root in roots:
            place = os.path.join(root, *plain.split(".")) if plain else root  # noqa: PTH118
            yield f"{place}.py"
            yield os.path.join(place, "__init__.py")  # noqa: PTH118


def read_calls(content: bytes) -> CallFacts:
    """A file's calls of other files' functions; empty if it is not Python."""
    if b"def " not in content and _IMPORT not in content:
        return CallFacts()
    try:
        with room_for_nesting(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(original_of(content))
            return _Reader(tree).facts()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return CallFacts()


class _Reader:
    """Reads one tree."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        # The meaning of names anywhere in the file: a module, or a name in one.
        self._modules: dict[str, str] = {}
        self._names: dict[str, tuple[str, str]] = {}
        self._stars: list[str] = []
        self._called: list[ast.expr] = []

    def facts(self) -> CallFacts:
        plain: set[str] = set()
        for node in walk(self._tree):
            if isinstance(node, ast.Call):
                self._called.append(node.func)
            elif isinstance(node, ast.Import):
                plain.update(each.name for each in node.names)
                self._modules.update((each.asname, each.name) for each in node.names if each.asname)
            elif isinstance(node, ast.ImportFrom):
                self._add_names(node)
        calls = dict.fromkeys(call for each in self._called for call in self._calls_of(each, plain))
        functions = tuple(each.name for each in self._tree.body if isinstance(each, ast.FunctionDef))
        imports = tuple((name, *source) for name, source in self._names.items())
        return CallFacts(functions, imports, tuple(self._stars), tuple(calls))

    def _add_names(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        for each in node.names:
            if each.name == "*":
                self._stars.append(module)
            else:
                self._names[each.asname or each.name] = (module, each.name)

    def _calls_of(self, function: ast.expr, plain: set[str]) -> Iterator[tuple[str, str]]:
        """The functions that a called expression may refer to, each as a module and a name in it."""
        parts: list[str] = []
        while isinstance(function, ast.Attribute):
            parts.insert(0, function.attr)
            function = function.value
        if not isinstance(function, ast.Name):
            return
        first = function.id
        if not parts:
            if first in self._names:
                yield self._names[first]
            else:  # it may come from a star import
                yield from ((module, first) for module in self._stars)
            return
        *between, last = parts
        if first in self._names:
            module, name = self._names[first]
            separator = "" if module.endswith(".") else "."
            yield ".".join([f"{module}{separator}{name}", *between]), last
        elif first in self._modules:
            yield ".".join([self._modules[first], *between]), last
        elif ".".join([first, *between]) in plain:
            yield ".".join([first, *between]), last


def _version() -> str:
    import instrumentor.engine.calls_between as reader

    return version_of([reader, nodes], [])
