"""Modules that a module holds in a plain list, tuple or dict. They are no submodules, so they need their own proxies.

The search is for an attribute that may hold a plain container of something that a call may have made as a module.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING

from instrumentor.resolve import catalogue
from instrumentor.resolve.bindings import stores
from instrumentor.resolve.mentions import value_names
from instrumentor.resolve.unit import Class, Function, Unit
from instrumentor.screening.names import PUTTING_METHODS, VALUE_METHODS, Gives
from instrumentor.source.nodes import (
    DISPLAYS,
    all_parameters,
    arguments_of,
    choices_of,
    elements_of,
    last_name,
    walk,
)

if TYPE_CHECKING:
    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.screening.names import Callables, Names

_COPYING = frozenset(
    {"list", "tuple", "set", "dict", "OrderedDict", "sorted", "reversed", "deque", "zip", "enumerate", "chain"}
)
_ROUNDS = (ast.For, ast.AsyncFor, ast.comprehension)


class PlainContainers:
    """Searches for modules in plain containers, in the code of module classes.

    A call whose callee is not known may make a module. Variables and functions are told apart by their names alone.

    Args:
        unit: the file, with that code and all other.
        names: the meanings of the file's names.
        callables: judges callees.
    """

    def __init__(self, unit: Unit, hierarchy: Hierarchy, names: Names, callables: Callables) -> None:
        self._unit = unit
        self._hierarchy = hierarchy
        self._names = names
        self._callables = callables
        nodes = list(unit.parents)
        self._rounds = {id(node.target) for node in nodes if isinstance(node, _ROUNDS)}
        self._stores = [(target, value) for node in nodes for target, value in stores(node)]
        self._calls = [node for node in nodes if isinstance(node, ast.Call)]
        functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        self._functions = {function.name for function in functions}
        # The parameters of all functions by the functions' names, and those of lambdas.
        self._parameters: dict[str, set[str]] = defaultdict(set)
        for node in nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                self._parameters[getattr(node, "name", "")].update(each.arg for each in all_parameters(node.args))
        # The names that are read without being called, so that calls by other names may reach them.
        self._read = set(map(last_name, value_names(unit, nodes)))
        # What functions return or yield, by their names.
        self._given = [
            (function.name, node.value)
            for function in functions
            for node in walk(function)
            if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) and node.value is not None
        ]
        stored = [
            (each.attr, value)
            for target, value in self._stores
            for each in walk(target)
            if isinstance(each, ast.Attribute)
        ]
        self._attributes = {name for name, _ in stored}
        # Those that may hold something callable that is no instance.
        self._callable_attributes = {name for name, value in stored if _may_be_callable(value)}
        # The variables that may hold modules made here, and plain containers of them.
        self._made: set[str] = set()
        self._containers: set[str] = set()
        # The functions of this file that may return either.
        self._giving: set[str] = set()

    def may_hold_model(self) -> bool:
        """Whether an attribute may hold a plain container with a module."""
        self._follow()
        giving = {function for function, value in self._given if self._is_container(value)}
        return any(self._is_kept(target, value, giving) for target, value in self._stores) or any(
            self._is_put(node) or self._is_passed(node) for node in self._calls
        )

    def _follow(self) -> None:
        """Find the names of modules that may be made here, and of plain containers that may hold them."""
        before = -1
        while before != (before := len(self._made) + len(self._containers) + len(self._giving)):
            for target, value in self._stores:
                self._follow_store(target, value)
            for node in self._calls:
                self._follow_call(node)
            self._giving.update(function for function, value in self._given if self._is_hot(value))

    def _follow_store(self, target: ast.expr, value: ast.expr) -> None:
        if self._is_made(value):
            self._made.update(_names_in(target))
        if self._is_container(value):
            self._containers.update(_names_in(target))
            if id(target) in self._rounds:
                self._made.update(_names_in(target))
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and self._is_hot(value):
            self._containers.add(target.value.id)

    def _follow_call(self, node: ast.Call) -> None:
        given = arguments_of(node)
        holder = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(holder, ast.Name) and self._puts(node) and any(map(self._is_hot, given)):
            self._containers.add(holder.id)
        if self._may_keep(node):
            if any(map(self._is_made, given)):
                self._made.update(self._parameters_reached(node))
            if any(map(self._is_container, given)):
                self._containers.update(self._parameters_reached(node))

    def _parameters_reached(self, node: ast.Call) -> set[str]:
        """The parameters of this file's functions that may get the arguments of a call."""
        meaning = self._names.meaning(node.func)
        if isinstance(meaning, Class):
            return self._parameters["__init__"]
        if isinstance(meaning, Function):
            return self._parameters[meaning.name]
        names = self._read | {"", last_name(node.func)}
        is_named = isinstance(node.func, ast.Attribute) and node.func.attr != "__class__"
        if not is_named or not self._read.isdisjoint(self._unit.classes):
            names.add("__init__")  # the callee may be a class of this file
        return {parameter for name in names for parameter in self._parameters.get(name, ())}

    def _may_keep(self, node: ast.Call) -> bool:
        """Whether a call may make a module that holds its arguments as they are, or leads to code in this file.

        An existing layer only computes, and torch's own modules hold modules as submodules.
        """
        meaning = self._names.meaning(node.func)
        if isinstance(meaning, Class):
            return self._hierarchy.is_module(meaning)
        if isinstance(meaning, Function):
            owners = [each for each in meaning.unit.class_of.values() if each.methods.get(meaning.name) is meaning]
            return meaning.unit is self._unit or any(map(self._hierarchy.is_module, owners))
        if isinstance(node.func, ast.Attribute):
            return node.func.attr in self._functions | self._callable_attributes
        return meaning is None

    def _makes(self, node: ast.Call) -> bool:
        """Whether a call may make a module."""
        meaning = self._names.meaning(node.func)
        if isinstance(meaning, Class):
            return self._hierarchy.is_module(meaning)
        if isinstance(meaning, str):
            return self._callables.of_library(meaning) is Gives.ANYTHING
        if isinstance(meaning, Unit):
            return False  # nothing known; in a module class, such a call makes no module
        if isinstance(meaning, Function):
            if meaning.unit is self._unit:
                return meaning.name in self._giving
            return self._callables.of_function(meaning) is not Gives.NO_MODULE
        attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        return not (attribute in VALUE_METHODS and attribute not in self._functions | self._attributes)

    def _is_made(self, value: ast.expr) -> bool:
        """Whether an expression may be a module made here."""
        if isinstance(value, ast.Name):
            return value.id in self._made
        if isinstance(value, ast.Call):
            return self._makes(value)
        return any(map(self._is_made, choices_of(value)))

    def _is_hot(self, element: ast.expr) -> bool:
        """Whether an element of a container may be such a module, or a container of such modules."""
        return self._is_made(element) or self._is_container(element)

    def _is_container(self, value: ast.expr) -> bool:
        """Whether an expression may be a plain container of such modules."""
        if isinstance(value, ast.Name):
            return value.id in self._containers
        if isinstance(value, DISPLAYS):
            return any(map(self._is_hot, elements_of(value)))
        if isinstance(value, ast.Call):
            is_copy = last_name(value.func) in _COPYING
            return is_copy and any(map(self._is_hot, arguments_of(value)))
        if isinstance(value, ast.BinOp):
            return self._is_container(value.left) or self._is_container(value.right)
        return any(map(self._is_container, choices_of(value)))

    def _is_kept(self, target: ast.expr, value: ast.expr, giving: set[str]) -> bool:
        """Whether a store puts such a container into an attribute."""
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Attribute):
            return self._is_hot(value) and not self._is_module_container(target.value)
        if not any(isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) for each in ast.walk(target)):
            return False
        return self._is_container(value) or any(
            isinstance(each, ast.Call) and last_name(each.func) in giving for each in ast.walk(value)
        )

    @staticmethod
    def _puts(node: ast.Call) -> bool:
        return isinstance(node.func, ast.Attribute) and node.func.attr in PUTTING_METHODS

    def _is_put(self, node: ast.Call) -> bool:
        """Whether a call puts such a module into a container that an attribute holds."""
        if not isinstance(node.func, ast.Attribute) or not self._puts(node):
            return False
        holder = node.func.value
        if not isinstance(holder, ast.Attribute) or not any(map(self._is_hot, arguments_of(node))):
            return False
        return not self._is_module_container(holder)

    def _is_module_container(self, attribute: ast.Attribute) -> bool:
        """Whether an attribute only ever holds module containers, which register their elements as submodules."""
        kept = [value for target, value in self._stores if getattr(target, "attr", None) == attribute.attr]
        meanings = [self._names.meaning(value.func) if isinstance(value, ast.Call) else None for value in kept]
        return bool(kept) and all(isinstance(each, str) and catalogue.is_container(each) for each in meanings)

    def _is_passed(self, node: ast.Call) -> bool:
        """Whether a call passes such a container to something in another file that may hold it."""
        meaning = self._names.meaning(node.func)
        if isinstance(meaning, (Class, Function)):
            is_followed = meaning.unit is self._unit
        else:
            attribute = node.func.attr if isinstance(node.func, ast.Attribute) else None
            is_followed = attribute is not None and attribute not in self._callable_attributes
        return (
            not is_followed
            and self._may_keep(node)
            and any(self._is_container(each) for each in arguments_of(node) if not isinstance(each, ast.Starred))
        )


def _names_in(target: ast.expr) -> list[str]:
    return [node.id for node in walk(target) if isinstance(node, ast.Name)]


def _may_be_callable(value: ast.expr) -> bool:
    """Whether a stored value may be a class or function. Results of calls do not count."""
    if isinstance(value, (ast.IfExp, ast.BoolOp, ast.NamedExpr)):
        return any(map(_may_be_callable, choices_of(value)))
    return not isinstance(value, (ast.Call, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.JoinedStr))
