"""The code of a file outside its module classes, which may make or get a model that must be wrapped.

What is made inside module classes becomes part of a module; `plain_containers` finds the exceptions. Outside, every
call must be known to make no module. No result is followed: nothing there may be used as a module, and no code of other
files that may use something as a module may get hold of anything.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.resolve import catalogue
from instrumentor.resolve.bindings import annotated_items, annotations_of, function_around, stores
from instrumentor.resolve.function_outline import EVIDENCE, is_copy_of_attributes
from instrumentor.resolve.outline import OutlinedUnit, stored_attributes
from instrumentor.resolve.unit import Class, Function, Unit
from instrumentor.screening.names import Gives
from instrumentor.source.nodes import arguments_of, children, last_name

if TYPE_CHECKING:
    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.screening.names import Callables, Names


class OuterCode:
    """Searches for models in the code outside module classes.

    Args:
        unit: the script.
        names: the meanings of the script's names.
        callables: judges callees.
    """

    def __init__(self, unit: Unit, hierarchy: Hierarchy, names: Names, callables: Callables) -> None:
        self._unit = unit
        self._nodes: list[ast.AST] = []
        self._calls: list[ast.Call] = []
        self._hierarchy = hierarchy
        self._names = names
        self._callables = callables

    def may_hold_model(self, nodes: list[ast.AST], outside_classes: list[ast.AST]) -> bool:
        """Whether the code outside module classes may make or get a model.

        Args:
            nodes: that code.
            outside_classes: the part of it outside all classes.
        """
        self._nodes = nodes
        self._calls = [node for node in nodes if isinstance(node, ast.Call)]
        return (
            any(map(self.uses_as_module, self._calls))
            or any(map(self._may_make_model, self._calls))
            or any(map(self._is_risky_decorator, self._nodes))
            or any(map(self._hands_class_to_maker, self._calls))
            or any(map(self._deals_in_modules, self._nodes))
            or self._is_read_in_module_classes()
            or any(map(self._goes_out_of_sight, self._calls))
            or any(map(self._is_used_out_of_sight, self._nodes))
            or any(self._has_attribute(target) for node in outside_classes for target, _ in stores(node))
            or self._may_methods_make_modules()
        )

    # ---- what calls give ----

    def _may_make_model(self, node: ast.Call) -> bool:
        if _makes_bare_object(node.func):
            return True
        return not self._decorates_class(node) and self._gives_anything(node.func, node)

    def _gives_anything(self, function: ast.expr, node: ast.AST) -> bool:
        """Whether calling a function at a node may make a model."""
        meaning = self._names.meaning(function)
        if isinstance(node, ast.Call) and (is_copy_of_attributes(node) or self._copies_what_is_not_known(node)):
            return False
        if isinstance(meaning, str):
            if meaning in catalogue.MAPPING and isinstance(node, ast.Call) and node.args:
                return self._gives_anything(node.args[0], node.args[0])
            # What `setattr` sets is examined elsewhere.
            return meaning != "builtins.setattr" and self._callables.of_library(meaning) is Gives.ANYTHING
        if isinstance(meaning, Class):
            return self._hierarchy.is_module(meaning)
        if isinstance(meaning, Function):
            if meaning.unit is not self._unit:
                return self._callables.of_function(meaning) is Gives.ANYTHING
            # Its calls are examined themselves, unless it is a method of a module.
            return self._hierarchy.is_in_module_class(self._unit, meaning.node)
        if isinstance(meaning, Unit):
            return False  # a submodule with the name of the function in it
        if isinstance(function, ast.Attribute):
            if isinstance(node, ast.Call) and function.attr in EVIDENCE and not self.uses_as_module(node):
                return False
            return self._callables.of_method(function.attr) is Gives.ANYTHING
        return self._callables.unnamed is Gives.ANYTHING

    def _copies_what_is_not_known(self, node: ast.Call) -> bool:
        """Whether a call copies something of unknown origin, or the result of a call, which is examined itself."""
        if self._names.meaning(node.func) not in ("copy.copy", "copy.deepcopy") or not node.args:
            return False
        root = node.args[0]
        while isinstance(root, (ast.Attribute, ast.Subscript)):
            root = root.value
        return isinstance(node.args[0], ast.Call) or (isinstance(root, ast.Name) and self._names.is_stored(root))

    def uses_as_module(self, node: ast.Call) -> bool:
        """Whether a call by itself shows that its receiver is a module."""
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in EVIDENCE:
            return False
        used = node.func.value
        meaning = self._names.meaning(used.func if isinstance(used, ast.Call) else used)
        if isinstance(used, ast.Call):
            return not isinstance(meaning, str) or self._callables.of_library(meaning) is not Gives.NO_MODULE
        return not isinstance(meaning, Class) or self._hierarchy.is_module(meaning)  # otherwise as in `Function.apply`

    def calls_what_is_not_known(self, node: ast.Call) -> bool:
        """Whether a call by itself shows that its callee may be anything: a variable, or no name at all."""
        function = node.func
        if isinstance(function, ast.Attribute):
            return False
        return not isinstance(function, ast.Name) or self._names.is_stored(function)

    def _decorates_class(self, node: ast.Call) -> bool:
        """Whether a call makes a decorator of a class. The analysis ignores what decorators do to classes."""
        above = self._unit.parents[node]
        return isinstance(above, ast.ClassDef) and node in above.decorator_list

    def _is_risky_decorator(self, node: ast.AST) -> bool:
        """Whether a decorator without a call may replace a function by a model."""
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        plain = [each for each in node.decorator_list if not isinstance(each, ast.Call)]
        return any(self._gives_anything(each, each) for each in plain)

    def _may_methods_make_modules(self) -> bool:
        """Whether a known file has a function, or stores something callable, under the name of a method relied on.

        A function that uses its arguments as modules counts too.
        """
        for dotted in (*self._unit.imports.values(), *self._unit.stars):
            self._hierarchy.project.lookup(self._unit, dotted)
        checked: set[str] = set()
        while not self._callables.relied_on <= checked:  # grows by what is judged meanwhile
            names = self._callables.relied_on - checked
            checked |= names
            if any(self._may_make_module(unit, names) for unit in list(self._hierarchy.project.units.values())):
                return True
        return False

    def _may_make_module(self, unit: Unit | None, names: set[str]) -> bool:
        if unit is None:
            return False
        if isinstance(unit, OutlinedUnit):
            named = [each for each in unit.function_by_key.values() if each.name in names]
            return not names.isdisjoint(unit.outline.stored) or any(
                self._callables.of_function(each) is Gives.ANYTHING or self._callables.may_use_modules(each)
                for each in named
            )
        owners = [cls for cls in unit.class_of.values() if self._hierarchy.is_module(cls)]
        return not names.isdisjoint(stored_attributes(unit)) or any(not names.isdisjoint(cls.methods) for cls in owners)

    def _deals_in_modules(self, node: ast.AST) -> bool:
        """Whether a name means something that takes or makes modules or has such a method, or a maker that is renamed.

        An annotation with a module class counts too.
        """
        if any(self._hierarchy.declaration(self._unit, each).is_module for each in _declared_by(node)):
            return True
        if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
            return False
        knowledge = self._hierarchy.knowledge
        if any(knowledge.holding(each) is not None for each in self._hierarchy.names_in_libraries(self._unit, node)):
            return True
        meaning = self._names.meaning(node)
        if not isinstance(meaning, str):
            return False
        if knowledge.takes_module(meaning) or knowledge.takes_module(f"{meaning}.fit"):
            return True
        above = self._unit.parents.get(node)
        is_plain = (isinstance(above, ast.Call) and above.func is node) or isinstance(
            above, (ast.ClassDef, ast.Attribute)
        )
        return not is_plain and knowledge.makes_objects(meaning)

    def _hands_class_to_maker(self, node: ast.Call) -> bool:
        """Whether a call may pass a module class to something known to instantiate classes."""
        meaning = self._names.meaning(node.func)
        if isinstance(meaning, Class):
            called = self._hierarchy.library_bases(meaning)
        else:
            called = [meaning] if isinstance(meaning, str) else []
        if not any(each is not None and self._hierarchy.knowledge.makes_objects(each) for each in called):
            return False
        return any(map(self._may_be_class, arguments_of(node)))

    def _may_be_class(self, value: ast.AST) -> bool:
        """Whether a value may contain a module class, by the names in it. Calls in lambdas are examined themselves."""
        if isinstance(value, ast.Lambda):
            return False
        if isinstance(value, (ast.Name, ast.Attribute)):
            meaning = self._names.meaning(value)
            if isinstance(meaning, Class):
                return self._hierarchy.is_module(meaning)
            if isinstance(value, ast.Name):
                return meaning is None
        return any(map(self._may_be_class, children(value)))

    # ---- where results may go ----

    def _is_read_in_module_classes(self) -> bool:
        """Whether a module class uses a variable from the top level of the file."""
        outer = set(map(id, self._nodes))
        kept = {
            name
            for node in self._nodes
            for target, _ in stores(node)
            for name in _names_in(target)
            if function_around(self._unit, node) is None
        }
        return any(
            isinstance(node, ast.Name) and node.id in kept and id(node) not in outer and self._names.is_of_top(node)
            for node in self._unit.parents
        )

    def _goes_out_of_sight(self, node: ast.Call) -> bool:
        """Whether a call leads to code of another file that may use something as a module, or sets an attribute."""
        meaning = self._names.meaning(node.func)
        if meaning == "builtins.setattr":
            return any(not isinstance(each, (ast.Constant, ast.Lambda)) for each in node.args[2:])
        if not isinstance(meaning, (Function, Class)):
            return False
        return meaning.unit is not self._unit and self._callables.may_use_modules(meaning)

    def _is_used_out_of_sight(self, node: ast.AST) -> bool:
        """Whether it is a class that inherits methods of another file, which may use its attributes as modules."""
        cls = self._unit.class_of[node] if isinstance(node, ast.ClassDef) else None
        if cls is None or self._hierarchy.is_module(cls):
            return False
        above = [each.unit for each in self._hierarchy.ancestors(cls) if isinstance(each.unit, OutlinedUnit)]
        return any(
            each.outline.uses_modules or self._callables.declares_modules(each, each.outline.top) for each in above
        )

    def _has_attribute(self, target: ast.expr) -> bool:
        """Whether a target is an attribute or an element of one. Those of libraries, as `sys.modules`, do not count."""
        if isinstance(target, (ast.Tuple, ast.List)):
            return any(map(self._has_attribute, target.elts))
        if isinstance(target, (ast.Subscript, ast.Starred)):
            return self._has_attribute(target.value)
        if not isinstance(target, ast.Attribute):
            return False
        return not isinstance(self._names.meaning(target), str) or self._has_attribute(target.value)


def _declared_by(node: ast.AST) -> list[ast.expr]:
    """The annotations of a node, with those of a tuple's items."""
    return [each for annotation in annotations_of(node) for each in (annotation, *annotated_items(annotation))]


def _makes_bare_object(function: ast.expr) -> bool:
    """Whether the callee is the `__new__` of a class other than the enclosing one: `object.__new__(Net)`."""
    if not isinstance(function, ast.Attribute) or function.attr != "__new__":
        return False
    return not (isinstance(function.value, ast.Call) and last_name(function.value.func) == "super")


def _names_in(target: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]
