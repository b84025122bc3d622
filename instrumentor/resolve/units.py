"""The files that a script is made of: parsed, never imported, and read only as far as its names lead."""

from __future__ import annotations

import ast
import builtins
import posixpath
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from instrumentor.errors import InstrumentError
from instrumentor.resolve import catalogue
from instrumentor.resolve.added_folders import added_folders
from instrumentor.resolve.knowledge import Knowledge
from instrumentor.resolve.late_imports import late_imports
from instrumentor.resolve.module_reader import imported_names
from instrumentor.settings import Settings
from instrumentor.source.nodes import LOOPS, children, last_name, positional_parameters
from instrumentor.source.source_text import decode, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from instrumentor.resolve.function_text import FunctionText
    from instrumentor.resolve.installed import ModuleFinder

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SCRIPT = ""
# The nodes that are told of.
_TOLD = frozenset(
    {
        ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda,
        ast.Import, ast.ImportFrom, ast.Return, ast.Break, ast.Continue,
    }
)  # fmt: skip
# Projects are small where scripts are; a bound keeps a stray import of a huge neighbour from costing minutes.
# With 48 files five of 155 scripts come out otherwise, mostly by proxies that nobody needs, for a quarter more time.
# Paths that lead nowhere, as most do that a library's name may stand for, cost next to nothing.
MAX_UNITS = 36
# Of a program whose files are all instrumented.
MAX_PROGRAM_UNITS = 200
# By `from it import *` a name may be in many files: they are no longer looked for once so many paths were tried.
_MAX_GUESSED_PATHS = 200


@dataclass(frozen=True, eq=False)
class Function:
    """One function of a unit; `key` names it in all units."""

    key: str
    node: FunctionNode
    unit: Unit
    owner: Class | None
    parent: Function | None

    @property
    def name(self) -> str:
        """Its name; `lambda` for those without."""
        return "lambda" if isinstance(self.node, ast.Lambda) else self.node.name

    @property
    def outermost(self) -> Function:
        """The function that it stands in, at the top of the file or in a class; itself where it stands in none."""
        above = self
        while above.parent is not None:
            above = above.parent
        return above

    @cached_property
    def positional(self) -> tuple[str, ...]:
        """Its parameters that have positions, `*args` aside."""
        return tuple([each.arg for each in positional_parameters(self.node.args)])

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Its parameters that take one argument each."""
        return (*self.positional, *[each.arg for each in self.node.args.kwonlyargs])


@dataclass(frozen=True, eq=False)
class Class:
    """One class of a unit; `key` names it in all units."""

    key: str
    node: ast.ClassDef
    unit: Unit
    methods: dict[str, Function] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name


class FunctionContents(NamedTuple):
    """What lies in a function, and in those within it.

    Attributes:
        has_yield: whether something there makes a generator of it, or of one within it.
        uses: what mentions each name.
    """

    has_yield: bool
    uses: dict[str, list[ast.AST]]


@dataclass(frozen=True, eq=False)
class Unit:
    """One parsed file.

    Attributes:
        name: its path relative to the script's directory; `SCRIPT` for the script itself.
        folder: the folder that its relative imports start from.
        imports: every name bound by an import anywhere in it, as a dotted name; relative ones start with dots.
        alternatives: what the same names are imported as elsewhere in it, as in `try` and `except ImportError`.
        submodules: the modules that it imports as parts of packages, as `import models.resnet` does.
        stars: the modules it imports everything from.
        names: all that occur in it, but for those of definitions, imports, arguments and attributes.
        stored: those among them that a statement stores to or deletes.
        parents: the node above each node.
        around: the innermost function around nodes that was asked for.
        exits: the statements from within which `return`, `break` or `continue` may skip what follows them.
        left_early: what has such statements in its blocks.
        contents: what lies in its functions, as far as that was asked for.
        texts: what the texts of its functions show, by their keys, as far as that was asked for.
    """

    name: str
    folder: str
    tree: ast.Module
    imports: dict[str, str] = field(default_factory=dict)
    alternatives: dict[str, list[str]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    submodules: list[str] = field(default_factory=list)
    classes: dict[str, Class] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    class_of: dict[ast.ClassDef, Class] = field(default_factory=dict)
    class_by_key: dict[str, Class] = field(default_factory=dict)
    function_by_key: dict[str, Function] = field(default_factory=dict)
    function_of: dict[ast.AST, Function] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    around: dict[ast.AST, FunctionNode | None] = field(default_factory=dict)
    exits: set[ast.AST] = field(default_factory=set)
    left_early: set[ast.AST] = field(default_factory=set)
    contents: dict[FunctionNode, FunctionContents] = field(default_factory=dict)
    texts: dict[str, FunctionText] = field(default_factory=dict)

    @cached_property
    def used_as_modules(self) -> frozenset[str]:
        """The names and attributes of which something is asked, anywhere in it, that only modules have."""
        words = (catalogue.MODULE_EVIDENCE | catalogue.WEAK_EVIDENCE) - catalogue.MOVES - {"requires_grad_"}
        used = [node.value for node in self.parents if isinstance(node, ast.Attribute) and node.attr in words]
        return frozenset(filter(None, map(last_name, used)))

    @cached_property
    def read_as_values(self) -> dict[str, list[ast.expr]]:
        """Where it reads each name and attribute otherwise than to call what has it, or to have something decorated."""
        found: dict[str, list[ast.expr]] = {}
        for node, above in self.parents.items():
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                is_used_up = isinstance(above, ast.Attribute) or (isinstance(above, ast.Call) and above.func is node)
                if not is_used_up and node not in getattr(above, "decorator_list", ()):
                    found.setdefault(last_name(node), []).append(node)
        return found

    @cached_property
    def declarations(self) -> tuple[ast.AnnAssign, ...]:
        """The statements that declare a variable, or an attribute, with an annotation."""
        return tuple([node for node in self.parents if isinstance(node, ast.AnnAssign)])

    def take_apart(self) -> None:
        """Let go of its classes and functions, which refer back to it: only the collector would undo these circles."""
        for cls in self.class_of.values():
            cls.methods.clear()
        for table in (self.classes, self.functions, self.class_of, self.class_by_key):
            table.clear()
        self.function_of.clear()
        self.function_by_key.clear()


def index_unit(name: str, folder: str, tree: ast.Module) -> Unit:
    """List what a parsed file defines and imports."""
    unit = Unit(name, folder, tree)
    _index(unit)
    return unit


def is_main_guard(statement: ast.If) -> bool:
    """Whether a statement is `if __name__ == "__main__":`."""
    test = statement.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return False
    sides = (test.left, test.comparators[0])
    names = [side.id for side in sides if isinstance(side, ast.Name)]
    return names == ["__name__"] and any(isinstance(side, ast.Constant) and side.value == "__main__" for side in sides)


# How what sets and deletes a property is decorated, after the property's name.
ACCESSORS = frozenset({"setter", "deleter"})
# The class and the function that a node lies in, and what names defined there start with.
_Around = tuple["Class | None", "Function | None", str]


def _index(unit: Unit) -> None:
    # An explicit stack: generated scripts nest deeper than Python's own.
    pending: list[tuple[ast.AST, _Around]] = [(unit.tree, (None, None, ""))]
    parents = unit.parents
    while pending:
        above, around = pending.pop()
        for child in children(above):
            parents[child] = above
            kind = type(child)
            if isinstance(child, ast.Name):
                unit.names.add(child.id)
                if child.ctx.__class__ is not ast.Load:
                    unit.stored.add(child.id)
            elif kind is not ast.Constant:
                pending.append((child, _index_node(unit, child, above, around) if kind in _TOLD else around))


def _index_node(unit: Unit, node: ast.AST, above: ast.AST, around: _Around) -> _Around:
    """Note what a node defines, imports or leaves; gives what the nodes below it lie in."""
    owner, parent, prefix = around
    if isinstance(node, ast.ClassDef):
        return _index_class(unit, node, parent, prefix)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return _index_function(unit, node, above, owner, parent, prefix)
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        _index_import(unit, node)
    elif isinstance(node, (ast.Return, ast.Break, ast.Continue)):
        _index_exit(unit, node)
    return around


def _index_class(unit: Unit, node: ast.ClassDef, parent: Function | None, prefix: str) -> _Around:
    found = Class(f"{unit.name}:{prefix}{node.name}@{node.lineno}", node, unit)
    unit.class_of[node] = unit.class_by_key[found.key] = found
    if not prefix or node.name not in unit.classes:
        unit.classes[node.name] = found
    return found, parent, f"{prefix}{node.name}."


def _index_function(
    unit: Unit, node: FunctionNode, above: ast.AST, owner: Class | None, parent: Function | None, prefix: str
) -> _Around:
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    key = f"{unit.name}:{prefix}{name}@{node.lineno}:{node.col_offset}"
    found = Function(key, node, unit, owner, parent)
    unit.function_of[node] = unit.function_by_key[key] = found
    if above is not unit.tree and isinstance(above, ast.ClassDef) and owner is not None:
        owner.methods[_method_name(node)] = found
    elif not isinstance(node, ast.Lambda) and (not prefix or name not in unit.functions):
        unit.functions[name] = found
    return owner, found, f"{prefix}{name}."


def _method_name(node: FunctionNode) -> str:
    """Under which name a class keeps a method: what sets or deletes a property besides what gets it."""
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    for decorator in getattr(node, "decorator_list", ()):
        if isinstance(decorator, ast.Attribute) and decorator.attr in ACCESSORS and _is_name(decorator.value, name):
            return f"{name}.{decorator.attr}"
    return name


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _index_exit(unit: Unit, node: ast.Return | ast.Break | ast.Continue) -> None:
    ends = _FUNCTIONS if isinstance(node, ast.Return) else (*_FUNCTIONS, *LOOPS)
    left: ast.AST = node
    while left in unit.parents and not isinstance(left, ends):
        unit.exits.add(left)
        left = unit.parents[left]
        unit.left_early.add(left)


def _index_import(unit: Unit, node: ast.Import | ast.ImportFrom) -> None:
    for name, target in imported_names(node).items():
        if name == "*":
            unit.stars.append(target.removesuffix("*").rstrip(".") or target.removesuffix("*"))
        else:
            if unit.imports.setdefault(name, target) != target:
                unit.alternatives.setdefault(name, []).append(target)
    if isinstance(node, ast.Import):
        unit.submodules.extend(each.name for each in node.names if each.asname is None and "." in each.name)


class UnitFinder(Protocol):
    """Keeps what was read of files by their path, relative to the script, and their content."""

    def find(self, name: str, content: bytes, parse: Callable[[], Unit | None]) -> Unit | None:
        """The unit of a file, or as much of it as is wanted; None where it cannot be parsed."""
        ...


@dataclass(frozen=True)
class Sources:
    """Where the things come from that a script imports.

    Attributes:
        read: reads a file by its path relative to the script's directory (`net.py`, `models/resnet.py`); None where
            there is no such file.
        roots: the folders that absolute imports are looked up in, relative to the script's directory and in order.
        installed: the modules of the packages installed.
        parsed: keeps what was read for other scripts; without it all is parsed for this one.
        is_script: whether a path leads to the script itself, which another file may import: Python runs it once more
            then, as a module of its own, but what is written for it has to do for both.
        called: the functions at the top of the script that other files given with it call; None where it is not known
            which files use the script.
        modules_in: the names of the modules and packages in a folder, which is relative to the script's directory.
    """

    read: Callable[[str], bytes | None] | None = None
    roots: tuple[str, ...] = ("",)
    installed: ModuleFinder | None = None
    parsed: UnitFinder | None = None
    is_script: Callable[[str], bool] = lambda _path: False
    called: frozenset[str] | None = None
    modules_in: Callable[[str], Sequence[str]] = lambda _folder: ()


class Project:
    """The units that a script's imports lead to, each read once.

    Args:
        script: the script.
        settings: the user's additions to the catalogue.
        sources: the project's other files and the packages installed; without them only the catalogue speaks.
        max_units: how many files are read at most, besides the script.
    """

    def __init__(
        self,
        script: Unit,
        settings: Settings | None = None,
        sources: Sources | None = None,
        *,
        max_units: int = MAX_UNITS,
    ) -> None:
        self._max_units = max_units
        self.script = script
        self._sources = sources or Sources()
        self.knowledge = Knowledge(settings or Settings(), self._sources.installed)
        self.units: dict[str, Unit | None] = {SCRIPT: script}
        self.root_of: dict[str, str] = {}
        self._lookups: dict[tuple[str, str], Class | Function | Unit | str | None] = {}
        self._members: dict[tuple[str, str], Class | Function | Unit | str | None] = {}
        self._starred: dict[tuple[str, str], list[Unit]] = {}
        self._read_units = 0
        self._run_as_main = {SCRIPT}
        added = added_folders(script.tree, script.parents, script.imports)
        self._roots = tuple(dict.fromkeys((*self._sources.roots, *added)))

    def lookup(self, unit: Unit, dotted: str) -> Class | Function | Unit | str | None:
        """What an imported dotted name stands for.

        Returns:
            A class, function or whole unit of the project; a dotted name of a library; or None for a project's
            variable or a name that its unit does not have.
        """
        key = (unit.name, dotted)
        if key not in self._lookups:
            self._lookups[key] = self._lookup(unit, dotted, depth=12)
        return self._lookups[key]

    def member(self, unit: Unit, name: str) -> Class | Function | Unit | str | None:
        """What `name` stands for at the top of a unit."""
        key = (unit.name, name)
        if key not in self._members:
            self._members[key] = self._member(unit, name, depth=12)
        return self._members[key]

    def starred(self, unit: Unit, name: str) -> list[Unit]:
        """The files whose variable a name may be by `from it import *`, directly or handed on; the likeliest first."""
        key = (unit.name, name)
        if key not in self._starred:
            self._starred[key] = [] if name.startswith("_") else self._find_starred(unit, name, depth=12)
        return self._starred[key]

    def _find_starred(self, unit: Unit, name: str, depth: int) -> list[Unit]:
        found: list[Unit] = []
        for star in reversed(unit.stars if depth else ()):
            source = self._lookup(unit, star, depth - 1, is_guess=True)
            if isinstance(source, Unit):
                found += [source] if name in source.stored else self._find_starred(source, name, depth - 1)
        return found

    def names(self, unit: Unit) -> list[str]:
        """What a unit defines and imports, what it gets by `from it import *` included."""
        found: dict[str, None] = {}
        pending, seen = [unit], {unit.name}
        while pending:
            each = pending.pop()
            names = (*each.functions, *each.classes, *each.imports)
            found.update(dict.fromkeys(name for name in names if each is unit or not name.startswith("_")))
            sources = [self._lookup(each, star, depth=12, is_guess=True) for star in each.stars]
            pending += [source for source in sources if isinstance(source, Unit) and source.name not in seen]
            seen.update(source.name for source in pending)
        return list(found)

    def class_at(self, key: str) -> Class | None:
        """The class with a key, of a file read so far."""
        unit = self.units.get(key.partition(":")[0])
        return None if unit is None else unit.class_by_key.get(key)

    def imported_units(self) -> list[Unit]:
        """The project's files that are run when the script is: all that its imports lead to, itself aside.

        Those too that a call imports, as far as it writes what their names begin with.
        """
        found: dict[str, Unit] = {}
        pending = [self.script]
        while pending:
            unit = pending.pop(0)
            others = (name for names in unit.alternatives.values() for name in names)
            direct = (*unit.imports.values(), *others, *unit.submodules, *unit.stars)
            late = list(self._imported_late(unit))
            for dotted in (*direct, *(name for name, _ in late)):
                level = len(dotted) - len(dotted.lstrip("."))
                parts = dotted[level:].split(".")
                if not level and self._is_library(parts[0]):
                    continue
                for count in range(len(parts) + 1):
                    prefix = dotted[:level] + ".".join(parts[:count])
                    target = self.lookup(unit, prefix) if prefix else None
                    reached = target.unit if isinstance(target, (Class, Function)) else target
                    if isinstance(reached, Unit) and reached.name not in found and reached is not self.script:
                        found[reached.name] = reached
                        pending.append(reached)
            mains = (self.lookup(unit, dotted) for dotted, is_main in late if is_main)
            self._run_as_main.update(each.name for each in mains if isinstance(each, Unit))
        return list(found.values())

    def is_run_as_main(self, unit: Unit) -> bool:
        """Whether `if __name__ == "__main__":` is true in a file: in the script, and in what `runpy` runs as one."""
        return unit.name in self._run_as_main

    def _imported_late(self, unit: Unit) -> Iterator[tuple[str, bool]]:
        """The dotted names of the modules that calls in a file may import, and whether as the main program."""
        for each in late_imports(unit):
            is_relative = each.package.startswith(".")
            inside = each.package.lstrip(".").replace(".", "/")
            begin = each.package if each.package.endswith(".") or not each.package else f"{each.package}."
            for folder in [unit.folder] if is_relative else self._roots:
                names = self._sources.modules_in(posixpath.join(folder, inside))
                yield from ((begin + name, each.is_main) for name in names if each.name.fullmatch(name))

    def _lookup(
        self, unit: Unit, dotted: str, depth: int, *, is_guess: bool = False
    ) -> Class | Function | Unit | str | None:
        """Likewise, `depth` imports deep; `is_guess` where only a star import says that the name may be there."""
        if depth == 0:
            return None
        level = len(dotted) - len(dotted.lstrip("."))
        parts = [part for part in dotted[level:].split(".") if part]
        if not level and parts and self._is_told_by_catalogue(parts[0], dotted):
            return dotted
        folders = self._roots
        if level:
            folder = posixpath.normpath(posixpath.join(unit.folder or ".", *[".."] * (level - 1)))
            folders = ("" if folder == "." else folder,)
        places = [(folder, count) for folder in folders for count in range(len(parts), -1 if level else 0, -1)]
        for folder, count in places:
            found = self._unit_at(posixpath.join(folder, *parts[:count]), unit, is_guess=is_guess)
            if found is None:
                continue
            if not level:
                self.root_of.setdefault(found.name, folder)
            if count == len(parts):
                return found
            result: Class | Function | Unit | str | None = found
            for part in parts[count:]:
                if not isinstance(result, Unit):
                    return None
                result = self._member(result, part, depth - 1, is_guess=is_guess)
            return result
        return None if level else dotted

    def _is_told_by_catalogue(self, package: str, dotted: str) -> bool:
        """Whether the sources of a package, where the project has them, say less of a name than the catalogue does.

        To scripts that lie in a package they do not; but PyTorch's repository has a folder of its name.
        """
        is_listed = package == "torch" or dotted == package or catalogue.is_listed(dotted)
        return is_listed and self._is_library(package)

    def _is_library(self, package: str) -> bool:
        """Whether a package is none of the script's own, although the project may have it."""
        return package in catalogue.CATALOGUED_PACKAGES and (package == "torch" or not self._is_script_in_package)

    @cached_property
    def _is_script_in_package(self) -> bool:
        return self._sources.read is not None and self._sources.read("__init__.py") is not None

    def _member(
        self, unit: Unit, name: str, depth: int, *, is_guess: bool = False
    ) -> Class | Function | Unit | str | None:
        if depth == 0:
            return None
        if name in unit.classes:
            return unit.classes[name]
        if name in unit.functions:
            return unit.functions[name]
        if name in unit.imports:
            targets = [unit.imports[name], *unit.alternatives.get(name, ())]
            meant = [self._lookup(unit, target, depth - 1, is_guess=is_guess) for target in targets]
            # Of several that may be meant, what the project has says the most.
            return next((each for each in meant if each is not None and not isinstance(each, str)), meant[0])
        for star in unit.stars:
            source = self._lookup(unit, star, depth - 1, is_guess=True)
            if isinstance(source, Unit):
                found = self._member(source, name, depth - 1, is_guess=True)
                if found is not None:
                    return found
        if _is_package(unit):
            submodule = self._unit_at(posixpath.join(unit.folder, name), unit, is_guess=is_guess)
            if submodule is not None:
                return submodule
        return self._library_member(unit, name)

    def _library_member(self, unit: Unit, name: str) -> str | None:
        """The library's thing that a name may be by `from torch.nn import *`, where nothing else explains it."""
        if hasattr(builtins, name):
            return None
        for star in reversed(unit.stars):
            if not star.startswith("."):
                found = self.knowledge.star_member(star, name)
                if found is not None:
                    return found
        return None

    def _unit_at(self, path: str, asking: Unit, *, is_guess: bool) -> Unit | None:
        """The unit `path.py` or `path/__init__.py`; None where the project has neither, or enough was read."""
        if self._sources.read is None:
            return None
        package = f"{path}/__init__.py" if path else "__init__.py"
        for name in (package, f"{path}.py") if path else (package,):
            if name not in self.units:
                if self._read_units >= self._max_units or (is_guess and len(self.units) >= _MAX_GUESSED_PATHS):
                    return None
                self.units[name] = self._read(name)
                self._read_units += self.units[name] is not None
            found = self.units[name]
            if found is not None and found is not asking:
                return found
        return None

    def _read(self, name: str) -> Unit | None:
        assert self._sources.read is not None
        content = self._sources.read(name)
        if content is None:
            return None
        if self._sources.is_script(name):
            return self.script
        parsed = self._sources.parsed
        return _parsed(name, content) if parsed is None else parsed.find(name, content, lambda: _parsed(name, content))


def _parsed(name: str, content: bytes) -> Unit | None:
    try:
        tree = parse(decode(content, source_name=name), source_name=name)
    except InstrumentError:
        return None  # a broken neighbour is not this script's mistake: its names are judged by their use
    return index_unit(name, posixpath.dirname(name), tree)


def _is_package(unit: Unit) -> bool:
    return posixpath.basename(unit.name) == "__init__.py"
