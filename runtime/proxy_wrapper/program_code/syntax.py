"""Reads the syntax of one function, or of the code of a module outside its functions."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.program_code.imported_modules import USUAL, module_of, modules_imported
from proxy_wrapper.program_code.parsed_functions import statements_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_COUNTING: Final = frozenset({"enumerate", "iter", "tqdm", "trange", "progress_bar", "track"})
"""Functions that give the items of their first argument."""
_BRANCHES: Final = (ast.If, ast.IfExp, ast.Try, ast.For, ast.AsyncFor, ast.While, ast.BoolOp, ast.Lambda, ast.Match)
"""The nodes whose parts may not run, or may run several times."""
_INNER: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class Assignment(NamedTuple):
    """A target, which may be a tuple, and its value."""

    target: ast.expr
    value: ast.expr


class Scope:
    """The code of a function, or of a module, without that of the functions and classes in it.

    Attributes:
        root: the definition of the function, or the module.
        nodes: its nodes, in the order of the source.
        words: the variables and the attributes that it mentions.
        name: the name of the function; "" for a module.
        owner: the class of which it is a method, if it is one.
        modules: the modules that its file imports, by the names that it gives them.
    """

    def __init__(self, root: ast.AST, owner: ast.ClassDef | None = None, modules: Mapping[str, str] = USUAL) -> None:
        self.modules = modules
        self.name = root.name if isinstance(root, (ast.FunctionDef, ast.AsyncFunctionDef)) else ""
        self.root = root
        self.nodes = nodes_within(root)
        self.owner = owner
        names = {node.id for node in self.nodes if isinstance(node, ast.Name)}
        self.words = names | {node.attr for node in self.nodes if isinstance(node, ast.Attribute)}

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Its calls."""
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    @cached_property
    def assignments(self) -> list[Assignment]:
        """Each target of an assignment with its value; those of `a, b = c, d` one by one."""
        found: list[Assignment] = []
        for node in self.nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    found += _assignments(target, node.value)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                found.append(Assignment(node.target, node.value))
        return found

    @cached_property
    def _stores(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for node in self.nodes:
            if isinstance(node, (ast.Name, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
                found.setdefault(ast.unparse(node), []).append(node.lineno)
        return found

    def resolved(self, expression: ast.expr, around: Iterable[Scope] = (), *, with_defaults: bool = False) -> ast.expr:
        """An expression; if it is a variable that is assigned once, what that assigns.

        Args:
            expression: the expression.
            around: other scopes that may assign the variable, too.
            with_defaults: whether an argument that is never assigned stands for its default.
        """
        defaults = self._defaults if with_defaults else {}
        name = ast.unparse(expression) if is_variable(expression) else ""
        scopes = [self, *(each for each in around if each is not self)]
        if not name or sum(len(each.stores(name)) for each in scopes) + (name in defaults) != 1:
            return expression
        values = [value for each in scopes for target, value in each.assignments if ast.unparse(target) == name]
        return values[0] if values else defaults.get(name, expression)

    @cached_property
    def _defaults(self) -> dict[str, ast.expr]:
        """What the arguments of a function are by default."""
        if not isinstance(self.root, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return {}
        return defaults_of(self.root.args)

    def module_of(self, expression: ast.expr) -> str:
        """The dotted name of the module that an expression is; "" for other expressions."""
        return module_of(expression, self.modules)

    def stores(self, name: str) -> list[int]:
        """The lines that assign a variable or an attribute."""
        return self._stores.get(name, [])

    def is_zero_before(self, name: str, line: int) -> bool:
        """Whether the last assignment of a variable above a line sets it to 0, and nothing else on its line does."""
        last = max((each for each in self.stores(name) if each < line), default=0)
        values = [value for target, value in self.assignments if target.lineno == last and ast.unparse(target) == name]
        return len(values) == 1 and _is_zero(values[0])

    def is_stored_between(self, name: str, first: int, last: int) -> bool:
        """Whether a line between two others, without these, assigns a variable or an attribute."""
        return any(first < line < last for line in self.stores(name))


def scopes_of(tree: ast.Module) -> Iterator[Scope]:
    """The scopes of a file."""
    modules = modules_imported(tree)
    yield Scope(tree, modules=modules)
    owners: dict[int, ast.ClassDef] = {}
    for node in statements_of(tree):
        if isinstance(node, ast.ClassDef):
            owners.update((id(statement), node) for statement in node.body)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield Scope(node, owners.get(id(node)), modules)


def defaults_of(arguments: ast.arguments) -> dict[str, ast.expr]:
    """The arguments that have a default, with that."""
    given = [*arguments.posonlyargs, *arguments.args]
    defaults = [*zip(given[::-1], arguments.defaults[::-1], strict=False)]
    by_keyword = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    defaults += [(each, default) for each, default in by_keyword if default is not None]
    return {each.arg: default for each, default in defaults}


def nodes_within(root: ast.AST) -> list[ast.AST]:
    """The nodes below another in the order of the source, without those of functions and classes in it."""
    found: list[ast.AST] = []
    pending = [*ast.iter_child_nodes(root)][::-1]
    while pending:
        node = pending.pop()
        found.append(node)
        if not isinstance(node, _INNER):
            pending += [*ast.iter_child_nodes(node)][::-1]
    return found


def certain_nodes(scope: Scope, line: int = 0) -> list[ast.AST]:
    """The nodes of a function that run whenever it is called, or whenever it comes to a line, and before that."""
    branches = [node for node in scope.nodes if isinstance(node, _BRANCHES) and not _has_line(node, line)]
    conditional = {id(inside) for branch in branches for inside in nodes_within(branch)}
    ends = [node.end_lineno or 0 for node in scope.nodes if isinstance(node, (ast.Return, ast.Raise)) and not line]
    last = line or min(ends, default=0)
    return [node for node in scope.nodes if id(node) not in conditional and not 0 < last < getattr(node, "lineno", 0)]


def _has_line(node: ast.AST, line: int) -> bool:
    return isinstance(node, (ast.stmt, ast.expr)) and node.lineno <= line <= (node.end_lineno or 0)


def iterated_by(loop: ast.For | ast.AsyncFor | ast.comprehension) -> ast.expr:
    """What a loop goes through, without what only counts or displays: `loader` of `enumerate(tqdm(loader))`."""
    iterated = loop.iter
    while isinstance(iterated, ast.Call) and last_name(iterated.func) in _COUNTING and iterated.args:
        iterated = iterated.args[0]
    return iterated


def last_name(function: ast.expr) -> str:
    """The last part of the dotted name of a function; "" if it has no name."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def is_variable(node: ast.expr) -> bool:
    """Whether an expression is a variable, or an attribute of one."""
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name))


def names_in(node: ast.AST) -> set[str]:
    """The variables that an expression reads."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}


def _is_zero(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and type(value.value) in (int, float) and not value.value


def _assignments(target: ast.expr, value: ast.expr) -> Iterator[Assignment]:
    ones = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
    others = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
    if not ones or len(ones) != len(others) or any(isinstance(each, ast.Starred) for each in (*ones, *others)):
        yield Assignment(target, value)
        return
    for one, other in zip(ones, others, strict=True):
        yield from _assignments(one, other)
