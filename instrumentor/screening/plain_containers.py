"""Modules that a module keeps in a plain list, tuple or dict: no submodules of it, so they need proxies of their own.

Looked for is an attribute that may hold a plain container with something in it that a call may have made as a module.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.resolve import catalogue
from instrumentor.resolve.outline import bound_names, function_around, spelling, stores
from instrumentor.resolve.units import Class, Function
from instrumentor.screening.names import PUTTING_METHODS, Gives

if TYPE_CHECKING:
    from collections.abc import Iterator

    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.units import FunctionNode, Unit
    from instrumentor.screening.names import Callables, Names

# A name, with the function whose it is; None for the top of the file.
Variable = tuple["FunctionNode | None", str]

_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_COPYING = frozenset(
    {"list", "tuple", "set", "dict", "OrderedDict", "sorted", "reversed", "deque", "zip", "enumerate", "chain"}
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class PlainContainers:
    """Looks for modules in plain containers, in the code of module classes.

    Args:
        unit: the file, with that code and all other.
        names: what the file's names stand for.
        callables: judges what is called.
    """

    def __init__(self, unit: Unit, hierarchy: Hierarchy, names: Names, callables: Callables) -> None:
        self._unit = unit
        self._bound = bound_names(unit)
        self._nodes = list(unit.parents)
        self._hierarchy = hierarchy
        self._names = names
        self._callables = callables
        self._stores = [(target, value) for node in self._nodes for target, value in stores(node)]
        self._rounds = {
            id(node.target) for node in self._nodes if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension))
        }
        self._definitions = {node for node in self._nodes if isinstance(node, _FUNCTIONS)}
        self._methods = {node.name for node in self._nodes if isinstance(node, _FUNCTIONS)}
        self._callable_attributes = {
            each.attr
            for target, value in self._stores
            for each in ast.walk(target)
            if isinstance(each, ast.Attribute) and _may_be_callable(value)
        }
        self._calls = [node for node in self._nodes if isinstance(node, ast.Call)]
        self._parameters: dict[str, set[Variable]] = {}
        for node in self._nodes:
            if isinstance(node, ast.arg):
                function = function_around(unit, node)
                name = "" if function is None or isinstance(function, ast.Lambda) else function.name
                self._parameters.setdefault(name, set()).add((function, node.arg))
        self._members = self._find_members()
        self._made: set[Variable] = set()
        self._containers: set[Variable] = set()

    def may_hold_model(self) -> bool:
        """Whether a module may be in one."""
        self._find_names()
        giving = self._functions_giving_containers()
        return any(self._is_kept(target, value, giving) for target, value in self._stores) or any(
            self._is_put(node) or self._is_passed(node) for node in self._calls
        )

    def _variable(self, name: ast.Name) -> Variable:
        """Whose a name is where it is read or stored."""
        function = function_around(self._unit, name)
        while function is not None and name.id not in self._bound.get(function, ()):
            function = function_around(self._unit, function)
        return function, name.id

    def _variables_in(self, target: ast.expr) -> Iterator[Variable]:
        return (self._variable(node) for node in ast.walk(target) if isinstance(node, ast.Name))

    def _find_members(self) -> set[Variable]:
        """The names of what is taken out of attributes: modules that are there already."""
        taken: dict[Variable, bool] = {}
        for target, value in self._stores:
            is_taken = id(target) in self._rounds and all(
                spelling(each).startswith("self.") for each in _iterated(value)
            )
            for variable in self._variables_in(target):
                taken[variable] = taken.get(variable, True) and is_taken
        return {variable for variable, is_taken in taken.items() if is_taken}

    def _find_names(self) -> None:
        """Find the names of what may be a module made here, and of plain containers that may hold one."""
        passing = [node for node in self._calls if self._may_keep(node)]
        is_settled = False
        while not is_settled:
            before = len(self._made) + len(self._containers)
            for target, value in self._stores:
                if self._is_made(value):
                    self._made.update(self._variables_in(target))
                if self._is_container(value):
                    self._containers.update(self._variables_in(target))
                    if id(target) in self._rounds:
                        self._made.update(self._variables_in(target))
                if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and self._is_hot(value):
                    self._containers.add(self._variable(target.value))
            for node in self._calls:
                holder = node.func.value if isinstance(node.func, ast.Attribute) else None
                if isinstance(holder, ast.Name) and self._puts(node) and any(map(self._is_hot, _arguments(node))):
                    self._containers.add(self._variable(holder))
            for node in passing:
                if any(map(self._is_made, _arguments(node))):
                    self._made.update(self._parameters_of(node))
            is_settled = len(self._made) + len(self._containers) == before

    def _parameters_of(self, node: ast.Call) -> set[Variable]:
        """The parameters, of the functions in this file, that may get what a call passes."""
        meaning = self._names.meaning(node.func)
        name = ""
        if isinstance(meaning, Class):
            name = "__init__"
        elif isinstance(meaning, Function) and meaning.node in self._definitions:
            name = meaning.name
        elif isinstance(node.func, ast.Attribute) and node.func.attr not in self._callable_attributes:
            name = node.func.attr
        return self._parameters.get(name, set()) if name else set().union(*self._parameters.values())

    def _may_keep(self, node: ast.Call) -> bool:
        """Whether a call may make a module that keeps what it is passed as it is, or goes on in this file.

        A layer that is there already computes; what torch itself makes keeps modules as submodules.
        """
        meaning = self._names.meaning(node.func)
        if isinstance(meaning, Class):
            return self._hierarchy.is_module(meaning)
        if isinstance(meaning, Function):
            owners = [each for each in meaning.unit.class_of.values() if each.methods.get(meaning.name) is meaning]
            return meaning.node in self._definitions or any(map(self._hierarchy.is_module, owners))
        if isinstance(node.func, ast.Attribute):
            return node.func.attr in self._methods or node.func.attr in self._callable_attributes
        return meaning is None and self._makes(node)

    def _makes(self, node: ast.Call) -> bool:
        """Whether a call may make a module."""
        meaning = self._names.meaning(node.func)
        if isinstance(meaning, Class):
            return self._hierarchy.is_module(meaning)
        if isinstance(meaning, str):
            return self._callables.of_library(meaning) is Gives.ANYTHING
        if isinstance(meaning, Function):
            return True
        if isinstance(node.func, ast.Attribute):
            return node.func.attr in self._methods or node.func.attr in self._callable_attributes
        if isinstance(node.func, ast.Call):
            # What a layer computes that was made just now.
            return not (isinstance(self._names.meaning(node.func.func), str) or self._makes(node.func))
        return not (isinstance(node.func, ast.Name) and self._variable(node.func) in self._members)

    def _is_made(self, value: ast.expr) -> bool:
        """Whether an expression may be a module made here."""
        if isinstance(value, ast.Name):
            return self._variable(value) in self._made
        if isinstance(value, ast.Call):
            return self._makes(value)
        return any(map(self._is_made, _choices(value)))

    def _is_hot(self, element: ast.expr) -> bool:
        """Whether an element of a container may be such a module, or a container of some."""
        return self._is_made(element) or self._is_container(element)

    def _is_container(self, value: ast.expr) -> bool:
        """Whether an expression may be a plain container of such modules."""
        if isinstance(value, ast.Name):
            return self._variable(value) in self._containers
        if isinstance(value, _DISPLAYS):
            return any(map(self._is_hot, _elements(value)))
        if isinstance(value, ast.Call):
            is_copy = spelling(value.func).rpartition(".")[2] in _COPYING
            return is_copy and any(map(self._is_hot, _arguments(value)))
        if isinstance(value, ast.BinOp):
            return self._is_container(value.left) or self._is_container(value.right)
        return any(map(self._is_container, _choices(value)))

    def _functions_giving_containers(self) -> set[str]:
        return {
            node.name
            for node in self._nodes
            if isinstance(node, _FUNCTIONS)
            and any(
                isinstance(each, (ast.Return, ast.Yield, ast.YieldFrom))
                and each.value is not None
                and self._is_container(each.value)
                for each in ast.walk(node)
            )
        }

    def _is_kept(self, target: ast.expr, value: ast.expr, giving: set[str]) -> bool:
        """Whether a store lets an attribute hold such a container."""
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Attribute):
            return self._is_hot(value) and not self._is_module_container(target.value)
        if not any(isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) for each in ast.walk(target)):
            return False
        return self._is_container(value) or any(
            isinstance(each, ast.Call) and spelling(each.func).rpartition(".")[2] in giving for each in ast.walk(value)
        )

    @staticmethod
    def _puts(node: ast.Call) -> bool:
        return isinstance(node.func, ast.Attribute) and node.func.attr in PUTTING_METHODS

    def _is_put(self, node: ast.Call) -> bool:
        """Whether a call puts such a module into a container that an attribute holds."""
        if not isinstance(node.func, ast.Attribute) or not self._puts(node):
            return False
        holder = node.func.value
        if not isinstance(holder, ast.Attribute) or not any(map(self._is_hot, _arguments(node))):
            return False
        return not self._is_module_container(holder)

    def _is_module_container(self, attribute: ast.Attribute) -> bool:
        """Whether all that is stored in an attribute is a container which makes submodules of what is put into it."""
        kept = [value for target, value in self._stores if getattr(target, "attr", None) == attribute.attr]
        meanings = [self._names.meaning(value.func) if isinstance(value, ast.Call) else None for value in kept]
        return bool(kept) and all(isinstance(each, str) and catalogue.is_container(each) for each in meanings)

    def _is_passed(self, node: ast.Call) -> bool:
        """Whether a call passes such a container to what may keep it."""
        return self._may_keep(node) and any(
            self._is_container(each) for each in _arguments(node) if not isinstance(each, ast.Starred)
        )


def _arguments(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(each.value for each in node.keywords)]


def _choices(value: ast.expr) -> list[ast.expr]:
    if isinstance(value, ast.IfExp):
        return [value.body, value.orelse]
    if isinstance(value, ast.BoolOp):
        return value.values
    return [value.value] if isinstance(value, (ast.NamedExpr, ast.Starred, ast.Await)) else []


def _elements(display: ast.expr) -> list[ast.expr]:
    if isinstance(display, ast.Dict):
        return display.values
    if isinstance(display, ast.DictComp):
        return [display.value]
    if isinstance(display, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return [display.elt]
    return display.elts if isinstance(display, (ast.List, ast.Tuple, ast.Set)) else []


def _iterated(value: ast.expr) -> list[ast.expr]:
    """What a loop goes over, itself or numbered or in step with more."""
    if isinstance(value, ast.Call) and spelling(value.func) in {"enumerate", "zip", "reversed"}:
        return [each for argument in value.args for each in _iterated(argument)]
    return _iterated(value.value) if isinstance(value, ast.Subscript) else [value]


def _may_be_callable(value: ast.expr) -> bool:
    """Whether what is stored may be a class or function: not what a call gives."""
    if isinstance(value, (ast.IfExp, ast.BoolOp, ast.NamedExpr)):
        return any(map(_may_be_callable, _choices(value)))
    return not isinstance(value, (ast.Call, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.JoinedStr))
