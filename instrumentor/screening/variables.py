"""The names of a file by the function that binds them, and what its statements do with them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.resolve.bindings import bound_names, function_around, stores
from instrumentor.resolve.mentions import value_names
from instrumentor.resolve.units import Class, Function
from instrumentor.source.nodes import last_name, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.units import FunctionNode, Unit
    from instrumentor.screening.names import Names

# A name and the function that binds it; None for the top level of the file.
Variable = tuple["FunctionNode | None", str]
Definition = ast.FunctionDef | ast.AsyncFunctionDef


class Variables:
    """What a file stores, passes and returns.

    Attributes:
        stores: the targets stored to, each with the expression that gives the value or contains it.
        calls: all calls.
        definitions: all functions except lambdas.
        given: the expressions that these return or yield.
        parameters: the parameters of all functions, by the functions' names; those of lambdas under the empty name.
        read: the last components of names that are read without being called, so that calls by other names may reach
            them.
        attributes: the attributes stored to.
        callable_attributes: those of them that may hold something callable that is no instance.

    Args:
        unit: the file.
        hierarchy: the classes.
        names: the meanings of its names.
    """

    def __init__(self, unit: Unit, hierarchy: Hierarchy, names: Names) -> None:
        self._unit = unit
        self._hierarchy = hierarchy
        self._names = names
        self._bound = bound_names(unit)
        nodes = list(unit.parents)
        self.stores = [(target, value) for node in nodes for target, value in stores(node)]
        self.calls = [node for node in nodes if isinstance(node, ast.Call)]
        self.definitions: list[Definition] = [
            node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        ]
        self.given: list[tuple[Definition, ast.expr]] = [
            (function, node.value)
            for function in self.definitions
            for node in walk(function)
            if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) and node.value is not None
        ]
        self.parameters: dict[str, set[Variable]] = {}
        for node in nodes:
            if isinstance(node, ast.arg):
                function = function_around(unit, node)
                name = "" if function is None or isinstance(function, ast.Lambda) else function.name
                self.parameters.setdefault(name, set()).add((function, node.arg))
        stored = [
            (each.attr, value)
            for target, value in self.stores
            for each in walk(target)
            if isinstance(each, ast.Attribute)
        ]
        self.attributes = {name for name, _ in stored}
        self.callable_attributes = {name for name, value in stored if _may_be_callable(value)}
        self.read = set(map(last_name, value_names(unit, nodes)))

    def of(self, name: ast.Name) -> Variable:
        """The variable that a name means where it is read or stored."""
        function = function_around(self._unit, name)
        while function is not None and name.id not in self._bound.get(function, ()):
            function = function_around(self._unit, function)
        return function, name.id

    def within(self, target: ast.expr) -> Iterator[Variable]:
        """The variables in a target."""
        return (self.of(node) for node in walk(target) if isinstance(node, ast.Name))

    def parameters_of(self, function: ast.AST) -> set[Variable]:
        """The parameters of a function; none for a function of another file."""
        name = getattr(function, "name", "")
        return {each for each in self.parameters.get(name, ()) if each[0] is function}

    def parameters_reached(self, node: ast.Call) -> set[Variable]:
        """The parameters of functions in this file that may get the arguments of a call."""
        meaning = self._names.meaning(node.func)
        if isinstance(meaning, Class):
            initialiser = self._hierarchy.method(meaning, "__init__")
            return set() if initialiser is None else self.parameters_of(initialiser.node)
        if isinstance(meaning, Function):
            return self.parameters_of(meaning.node)
        names = self.read | {"", last_name(node.func)}
        is_named = isinstance(node.func, ast.Attribute) and node.func.attr != "__class__"
        if not is_named or not self.read.isdisjoint(self._unit.classes):
            names.add("__init__")  # the callee may be a class of this file
        return {variable for name in names for variable in self.parameters.get(name, ())}


def arguments_of(node: ast.Call) -> list[ast.expr]:
    """The arguments of a call."""
    return [*node.args, *(each.value for each in node.keywords)]


def choices_of(value: ast.AST) -> list[ast.expr]:
    """The alternatives of which an expression's value is one."""
    if isinstance(value, ast.IfExp):
        return [value.body, value.orelse]
    if isinstance(value, ast.BoolOp):
        return value.values
    return [value.value] if isinstance(value, (ast.NamedExpr, ast.Starred, ast.Await)) else []


def elements_of(display: ast.AST) -> list[ast.expr]:
    """The elements of a container display or comprehension."""
    if isinstance(display, ast.Dict):
        return display.values
    if isinstance(display, ast.DictComp):
        return [display.value]
    if isinstance(display, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return [display.elt]
    return display.elts if isinstance(display, (ast.List, ast.Tuple, ast.Set)) else []


def _may_be_callable(value: ast.expr) -> bool:
    """Whether a stored value may be a class or function. Results of calls do not count."""
    if isinstance(value, (ast.IfExp, ast.BoolOp, ast.NamedExpr)):
        return any(map(_may_be_callable, choices_of(value)))
    return not isinstance(value, (ast.Call, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.JoinedStr))
