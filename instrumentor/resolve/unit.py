"""A parsed file, with its definitions and imports."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.resolve import catalogue
from instrumentor.source.nodes import LOOPS, children, imported_names, last_name, positional_parameters

if TYPE_CHECKING:
    from collections.abc import Iterator


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SCRIPT = ""
# The node types that the index handles.
_TOLD = frozenset(
    {
        ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda,
        ast.Import, ast.ImportFrom, ast.Return, ast.Break, ast.Continue,
    }
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Function:
    """A function of a unit; `key` identifies it across units."""

    key: str
    node: FunctionNode
    unit: Unit
    owner: Class | None
    parent: Function | None

    @property
    def name(self) -> str:
        """Its name; `lambda` if it has none."""
        return "lambda" if isinstance(self.node, ast.Lambda) else self.node.name

    @property
    def outermost(self) -> Function:
        """The outermost enclosing function, at the top level of the file or in a class; itself if there is none."""
        above = self
        while above.parent is not None:
            above = above.parent
        return above

    @cached_property
    def positional(self) -> tuple[str, ...]:
        """Its positional parameters, except `*args`."""
        return tuple([each.arg for each in positional_parameters(self.node.args)])

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Its parameters that take one argument each."""
        return (*self.positional, *[each.arg for each in self.node.args.kwonlyargs])


@dataclass(frozen=True, eq=False)
class Class:
    """A class of a unit; `key` identifies it across units."""

    key: str
    node: ast.ClassDef
    unit: Unit
    methods: dict[str, Function] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name."""
        return self.node.name


class FunctionContents(NamedTuple):
    """The contents of a function and its nested functions.

    Attributes:
        has_yield: whether it or a nested function is a generator.
        uses: the nodes that mention each name.
    """

    has_yield: bool
    uses: dict[str, list[ast.AST]]


@dataclass(frozen=True, eq=False)
class Unit:
    """A parsed file.

    Attributes:
        name: its path relative to the script's directory; `SCRIPT` for the script itself.
        folder: the folder from which its relative imports start.
        imports: the dotted name of every name bound by an import; relative ones start with dots.
        alternatives: the other targets of names imported several times, as in `try` and `except ImportError`.
        submodules: the modules that it imports as parts of packages, as `import models.resnet` does.
        stars: the modules from which it imports everything.
        names: all names in it, except those of definitions, imports, arguments and attributes.
        stored: those of the names that a statement stores to or deletes.
        parents: the parent of each node.
        around: the innermost enclosing functions of nodes, as far as they were requested.
        exits: the statements in which `return`, `break` or `continue` may skip what follows them.
        left_early: the nodes with such statements in their blocks.
        contents: the contents of its functions, as far as they were requested.
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

    @cached_property
    def used_as_modules(self) -> frozenset[str]:
        """The names and attributes of which it uses a member, anywhere, that only modules have."""
        words = (catalogue.MODULE_EVIDENCE | catalogue.WEAK_EVIDENCE) - catalogue.MOVES - {"requires_grad_"}
        used = [node.value for node in self.parents if isinstance(node, ast.Attribute) and node.attr in words]
        return frozenset(filter(None, map(last_name, used)))

    @cached_property
    def read_as_values(self) -> dict[str, list[ast.expr]]:
        """The reads of each name and attribute, except for calls and decorators."""
        found: dict[str, list[ast.expr]] = {}
        for node, above in self.parents.items():
            if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                is_used_up = isinstance(above, ast.Attribute) or (isinstance(above, ast.Call) and above.func is node)
                if not is_used_up and node not in getattr(above, "decorator_list", ()):
                    found.setdefault(last_name(node), []).append(node)
        return found

    @cached_property
    def declarations(self) -> tuple[ast.AnnAssign, ...]:
        """The annotated declarations of variables and attributes."""
        return tuple([node for node in self.parents if isinstance(node, ast.AnnAssign)])

    def enclosing(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes that contain a node, the innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def class_around(self, node: ast.AST) -> Class | None:
        """The innermost class that contains a node; None if there is none."""
        return next((self.class_of[each] for each in self.enclosing(node) if isinstance(each, ast.ClassDef)), None)

    def take_apart(self) -> None:
        """Release its classes and functions. They refer back to it, which only the garbage collector would free."""
        for cls in self.class_of.values():
            cls.methods.clear()
        for table in (self.classes, self.functions, self.class_of, self.class_by_key):
            table.clear()
        self.function_of.clear()
        self.function_by_key.clear()


def index_unit(name: str, folder: str, tree: ast.Module) -> Unit:
    """The unit of a parsed file, with its definitions and imports."""
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


# The decorators of property setters and deleters, after the property's name.
ACCESSORS = frozenset({"setter", "deleter"})
# The enclosing class and function of a node, and the prefix of names defined there.
_Around = tuple["Class | None", "Function | None", str]


def _index(unit: Unit) -> None:
    # An explicit stack, because generated scripts nest deeper than Python's own.
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
    """Index what a node defines, imports or leaves; returns the surroundings of its children."""
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
    """The name of a method in its class; setters and deleters of a property have names of their own."""
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
