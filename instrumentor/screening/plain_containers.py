"""Modules that a module holds in a plain list, tuple or dict. They are no submodules, so they need their own proxies.

The search is for an attribute that may hold a plain container of something that a call may have made as a module.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.resolve import catalogue
from instrumentor.resolve.units import Class, Function, Unit
from instrumentor.screening.names import PUTTING_METHODS, VALUE_METHODS, Gives
from instrumentor.screening.variables import Variables, arguments_of, choices_of, elements_of
from instrumentor.source.nodes import DISPLAYS, last_name

if TYPE_CHECKING:
    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.screening.names import Callables, Names
    from instrumentor.screening.variables import Definition, Variable

_COPYING = frozenset(
    {"list", "tuple", "set", "dict", "OrderedDict", "sorted", "reversed", "deque", "zip", "enumerate", "chain"}
)
_ROUNDS = (ast.For, ast.AsyncFor, ast.comprehension)


class PlainContainers:
    """Searches for modules in plain containers, in the code of module classes.

    A call whose callee is not known may make a module.

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
        self._variables = variables = Variables(unit, hierarchy, names)
        self._rounds = {id(node.target) for node in unit.parents if isinstance(node, _ROUNDS)}
        self._methods = {node.name for node in variables.definitions}
        self._made: set[Variable] = set()
        self._containers: set[Variable] = set()
        # The functions of this file that may return such modules, or containers of them.
        self._giving: set[Definition] = set()

    def may_hold_model(self) -> bool:
        """Whether an attribute may hold a plain container with a module."""
        self._follow()
        giving = {function.name for function, value in self._variables.given if self._is_container(value)}
        return any(self._is_kept(target, value, giving) for target, value in self._variables.stores) or any(
            self._is_put(node) or self._is_passed(node) for node in self._variables.calls
        )

    def _follow(self) -> None:
        """Find the names of modules that may be made here, and of plain containers that may hold them."""
        before = -1
        while before != self._size:
            before = self._size
            for target, value in self._variables.stores:
                self._follow_store(target, value)
            for node in self._variables.calls:
                self._follow_call(node)
            self._giving.update(function for function, value in self._variables.given if self._is_hot(value))

    @property
    def _size(self) -> int:
        return len(self._made) + len(self._containers) + len(self._giving)

    def _follow_store(self, target: ast.expr, value: ast.expr) -> None:
        if self._is_made(value):
            self._made.update(self._variables.within(target))
        if self._is_container(value):
            self._containers.update(self._variables.within(target))
            if id(target) in self._rounds:
                self._made.update(self._variables.within(target))
        if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and self._is_hot(value):
            self._containers.add(self._variables.of(target.value))

    def _follow_call(self, node: ast.Call) -> None:
        given = arguments_of(node)
        holder = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(holder, ast.Name) and self._puts(node) and any(map(self._is_hot, given)):
            self._containers.add(self._variables.of(holder))
        if self._may_keep(node):
            if any(map(self._is_made, given)):
                self._made.update(self._variables.parameters_reached(node))
            if any(map(self._is_container, given)):
                self._containers.update(self._variables.parameters_reached(node))

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
            return node.func.attr in self._methods or node.func.attr in self._variables.callable_attributes
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
                return meaning.node in self._giving
            return self._callables.of_function(meaning) is not Gives.NO_MODULE
        attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        return not (attribute in VALUE_METHODS and attribute not in self._methods | self._variables.attributes)

    def _is_made(self, value: ast.expr) -> bool:
        """Whether an expression may be a module made here."""
        if isinstance(value, ast.Name):
            return self._variables.of(value) in self._made
        if isinstance(value, ast.Call):
            return self._makes(value)
        return any(map(self._is_made, choices_of(value)))

    def _is_hot(self, element: ast.expr) -> bool:
        """Whether an element of a container may be such a module, or a container of such modules."""
        return self._is_made(element) or self._is_container(element)

    def _is_container(self, value: ast.expr) -> bool:
        """Whether an expression may be a plain container of such modules."""
        if isinstance(value, ast.Name):
            return self._variables.of(value) in self._containers
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
        kept = [value for target, value in self._variables.stores if getattr(target, "attr", None) == attribute.attr]
        meanings = [self._names.meaning(value.func) if isinstance(value, ast.Call) else None for value in kept]
        return bool(kept) and all(isinstance(each, str) and catalogue.is_container(each) for each in meanings)

    def _is_passed(self, node: ast.Call) -> bool:
        """Whether a call passes such a container to something in another file that may hold it."""
        meaning = self._names.meaning(node.func)
        if isinstance(meaning, (Class, Function)):
            is_followed = meaning.unit is self._unit
        else:
            attribute = node.func.attr if isinstance(node.func, ast.Attribute) else None
            is_followed = attribute is not None and attribute not in self._variables.callable_attributes
        return (
            not is_followed
            and self._may_keep(node)
            and any(self._is_container(each) for each in arguments_of(node) if not isinstance(each, ast.Starred))
        )
