"""What in a file may hold a maker of modules: a module class, or a function that makes modules."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.resolve.catalogue import Effect
from instrumentor.resolve.outline import OutlinedUnit
from instrumentor.resolve.units import Class, Function, Unit
from instrumentor.screening.names import PUTTING_METHODS, Gives
from instrumentor.screening.read_makers import ReadMakers
from instrumentor.screening.variables import arguments_of, choices_of, elements_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.screening.names import Callables, Names
    from instrumentor.screening.variables import Definition, Variable, Variables

# Effects whose result contains the arguments.
_KEEPING = frozenset({Effect.BUILDS, Effect.COLLECTS})
_ASKING_FOR_CLASS = frozenset({"builtins.type"})


class MakerValues:
    """Follows makers through the names, attributes and containers of a file.

    Args:
        unit: the file.
        hierarchy: the classes.
        names: the meanings of the file's names.
        callables: judges callees.
        variables: the file's names, stores and functions.
        gives: whether a function of this file may return a module, as far as is known.
    """

    def __init__(
        self,
        unit: Unit,
        hierarchy: Hierarchy,
        names: Names,
        callables: Callables,
        variables: Variables,
        gives: Callable[[Definition], bool],
    ) -> None:
        self._unit = unit
        self._hierarchy = hierarchy
        self._names = names
        self._callables = callables
        self._variables = variables
        self._gives = gives
        self._read = ReadMakers(hierarchy, callables)
        self._held: set[Variable] = set()
        self._attributes: set[str] = {"__class__"}
        # The functions that may return a maker.
        self._handing_out: set[Definition] = set()
        self._held.update(self._held_from_outside())

    @property
    def size(self) -> int:
        """How many holders are known. Grows monotonically."""
        return len(self._held) + len(self._attributes) + len(self._handing_out)

    def follow(self) -> None:
        """Follow the makers one step further."""
        for target, value in self._variables.stores:
            if self.may_be(value):
                self._store(target)
        for parameter, default in self._variables.defaults:
            if self.may_be(default):
                self._held.add(parameter)
        for node in self._variables.calls:
            self._pass_functions(node)
            meaning = self._names.meaning(node.func)
            is_computing = isinstance(meaning, str) and self._is_computing(meaning)
            if not is_computing and any(map(self.may_be, arguments_of(node))):
                if isinstance(meaning, Function):
                    self._held.update(self._parameters_called_by(meaning))
                self._held.update(self._variables.parameters_reached(node, is_by_value=self.may_be(node.func)))
                if isinstance(node.func, ast.Attribute) and node.func.attr in PUTTING_METHODS:
                    self._store(node.func.value)
        self._handing_out.update(function for function, value in self._variables.given if self.may_be(value))

    @property
    def are_handed_out(self) -> bool:
        """Whether a maker is passed to a function of another file, or stored in something of another file."""
        return any(self._goes_elsewhere(node) for node in self._variables.calls) or any(
            self._names.root_is_imported(target) and self.may_be(value) for target, value in self._variables.stores
        )

    def _goes_elsewhere(self, node: ast.Call) -> bool:
        if not any(map(self.may_be, arguments_of(node))):
            return False
        meaning = self._names.meaning(node.func)
        if isinstance(meaning, Function):
            return meaning.unit is not self._unit
        return meaning is None and isinstance(node.func, ast.Attribute) and self._names.root_is_imported(node.func)

    def may_be(self, value: ast.expr) -> bool:
        """Whether an expression may be a maker, or a container of makers."""
        if isinstance(value, ast.Name):
            if self._names.is_stored(value):
                return self._variables.of(value) in self._held
            return self._is_maker(self._names.meaning(value), value)
        if isinstance(value, ast.Attribute):
            meaning = self._names.meaning(value)
            if meaning is not None:
                return self._is_maker(meaning, value)
            return value.attr in self._attributes or any(map(self._gives, self._variables.named(value.attr)))
        if isinstance(value, ast.Subscript):
            return self.may_be(value.value) and self._names.instance(value.value) is None
        if isinstance(value, ast.Call):
            return self._is_handed_out(value)
        if isinstance(value, ast.Lambda):
            return any(isinstance(node, ast.Call) for node in ast.walk(value.body))
        if isinstance(value, ast.BinOp):
            return self.may_be(value.left) or self.may_be(value.right)
        return any(map(self.may_be, (*choices_of(value), *elements_of(value))))

    def may_be_given_by(self, function: Function) -> bool:
        """Whether a function of another file, or code that it leads to, reads a maker as a value."""
        return self._read.may_be_given_by(function)

    def _is_maker(self, meaning: object, name: ast.expr) -> bool:
        if isinstance(meaning, Class):
            return self._hierarchy.is_module(meaning)
        if isinstance(meaning, Function):
            if meaning.unit is self._unit:
                return not isinstance(meaning.node, ast.Lambda) and self._gives(meaning.node)
            return self._callables.of_function(meaning) is Gives.ANYTHING or self._read.may_be_given_by(meaning)
        if isinstance(meaning, str):
            return self._callables.of_library(meaning) is Gives.ANYTHING
        # The content of another file's variable is unknown, unless it is an instance.
        return not isinstance(meaning, Unit) and self._names.instance(name) is None

    def _is_handed_out(self, node: ast.Call) -> bool:
        """Whether a call may return a maker."""
        meaning = self._names.meaning(node.func)
        if isinstance(meaning, str) and self._is_computing(meaning):
            return meaning in _ASKING_FOR_CLASS
        if any(map(self.may_be, arguments_of(node))):
            return True
        if isinstance(meaning, (Class, Unit, str)):
            return False
        if isinstance(meaning, Function) and meaning.unit is not self._unit:
            # A function that makes modules returns these, not their classes.
            is_making = self._callables.of_function(meaning) is Gives.ANYTHING
            return not is_making and self._read.may_be_given_by(meaning)
        if isinstance(meaning, Function):
            return meaning.node in self._handing_out
        if isinstance(node.func, ast.Attribute):
            is_by_own = not self._handing_out.isdisjoint(self._variables.named(node.func.attr))
            return is_by_own or self.may_be(node.func.value)
        return self.may_be(node.func)

    def _is_computing(self, name: str) -> bool:
        """Whether the result of a library function contains none of its arguments."""
        effect = self._hierarchy.knowledge.effect_of(name)
        return effect not in _KEEPING and self._callables.of_library(name) is Gives.NO_MODULE

    def _pass_functions(self, node: ast.Call) -> None:
        """Assume that makers are passed to functions of this file that another file's code gets as arguments."""
        meaning = self._names.meaning(node.func)
        if isinstance(meaning, Function) and meaning.unit is not self._unit:
            passed = [self._names.meaning(each) for each in arguments_of(node)]
            own = [each for each in passed if isinstance(each, Function) and each.unit is self._unit]
            if own and self._read.may_be_given_by(meaning):
                self._held.update(each for function in own for each in self._variables.parameters_of(function.node))

    def _store(self, target: ast.expr) -> None:
        for node in ast.walk(target):
            if isinstance(node, ast.Name):
                self._held.add(self._variables.of(node))
                if isinstance(self._unit.parents.get(self._unit.parents[node]), ast.ClassDef):
                    self._attributes.add(node.id)
            elif isinstance(node, ast.Attribute):
                self._attributes.add(node.attr)

    def _held_from_outside(self) -> set[Variable]:
        """The parameters for which code in other files may pass makers, and the classes of class methods."""
        above = {
            method
            for cls in self._unit.class_of.values()
            for each in self._hierarchy.ancestors(cls)
            if each.unit is not self._unit
            for method in each.methods.values()
        }
        passing = [method for method in above if _own_calls(method) and self._read.may_be_given_by(method)]
        found = {each for method in passing for each in self._parameters_called_by(method)}
        own = {each for some in self._variables.parameters.values() for each in some}
        return found | set(filter(self._is_module_class, own))

    def _parameters_called_by(self, function: Function) -> set[Variable]:
        """The parameters of methods in this file that an inherited method in another file may call."""
        return {
            variable
            for name in _own_calls(function)
            for variable in self._variables.parameters.get(name, ())
            if self._owner(variable) is not None
        }

    def _is_module_class(self, variable: Variable) -> bool:
        owner = self._owner(variable)
        return variable[1] == "cls" and owner is not None and self._hierarchy.is_module(owner)

    def _owner(self, variable: Variable) -> Class | None:
        above = None if variable[0] is None else self._unit.parents[variable[0]]
        return self._unit.class_of[above] if isinstance(above, ast.ClassDef) else None


def _own_calls(function: Function) -> set[str]:
    """The names of the methods that another file's method calls on its own object."""
    if not isinstance(function.unit, OutlinedUnit):
        return set()
    parts = [spelled.partition(".") for spelled in function.unit.outlined[function.key].calls]
    return {name for root, _, name in parts if root in ("self", "cls")}
