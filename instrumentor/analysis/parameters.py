"""The values of parameters on entry, and the attributes in which an initialiser leaves its arguments."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.arguments import decorator_names
from instrumentor.analysis.environment import is_parameter
from instrumentor.analysis.scope import CREATED
from instrumentor.analysis.values import NOTHING, ClassRef, Instance, Parameter, Value, join, value
from instrumentor.resolve.nature import Nature
from instrumentor.source.nodes import positional_parameters, walk

if TYPE_CHECKING:
    from instrumentor.analysis.environment import Environment
    from instrumentor.analysis.scope import Scope
    from instrumentor.resolve.unit import Class, Function

# Methods that get a class without a decorator.
_OF_CLASSES = frozenset({"__new__", "__class_getitem__"})


def parameters_of(scope: Scope, function: Function) -> dict[str, Value]:
    """The values of a function's parameters on entry."""
    declared = function.node.args
    positional = [each.arg for each in positional_parameters(declared)]
    names = [*positional, *(each.arg for each in declared.kwonlyargs)]
    held: dict[str, Value] = {name: value(Parameter(function.key, name)) for name in names}
    for several in (declared.vararg, declared.kwarg):
        if several is not None:
            held[several.arg] = scope.box(several, value(Parameter(function.key, several.arg)))
    receiver = _receiver(scope, function)
    if positional and receiver is not None:
        held[positional[0]] = receiver
    return held


def _receiver(scope: Scope, function: Function) -> Value | None:
    """The value of a method's first parameter; None if it is an ordinary parameter."""
    owner = function.owner
    if owner is None or all(method is not function for method in owner.methods.values()):
        return None
    decorators = decorator_names(function)
    if "staticmethod" in decorators or function.name == "__init_subclass__":  # which gets the subclasses alone
        return None
    if "classmethod" in decorators or function.name in _OF_CLASSES:
        return value(ClassRef(owner.key)) | _classes_passed(scope, function)
    if scope.hierarchy.is_metaclass(owner):
        metaclasses = [owner, *scope.kinds.descendants(owner)]
        made = [scope.facts.attributes.get((Instance(each.key), CREATED), NOTHING) for each in metaclasses]
        return join((*made, _classes_passed(scope, function))) or None
    return value(Instance(owner.key)) if _is_no_module(scope, owner) else None


def _classes_passed(scope: Scope, function: Function) -> Value:
    """The classes on which the calls seen call a method."""
    passed = scope.facts.passed.get((function.key, function.positional[0]), NOTHING) if function.positional else NOTHING
    return frozenset(ClassRef(atom.key) for atom in passed if isinstance(atom, (ClassRef, Instance)))


def _is_no_module(scope: Scope, owner: Class) -> bool:
    """Whether a class makes no modules; if a base is unseen, as far as its ancestors and descendants show."""
    nature = scope.hierarchy.nature(owner)
    if nature is not Nature.UNKNOWN:
        return nature is Nature.NOT_MODULE
    return not any(
        map(scope.hierarchy.looks_like_module, (*scope.hierarchy.ancestors(owner), *scope.kinds.descendants(owner)))
    )


def note_initial(scope: Scope, after: Environment) -> None:
    """Record which parameters of an initialiser are in which attributes on exit."""
    function = scope.function
    if function is None or function.owner is None or function.name != "__init__":
        return
    receiver = next(iter(function.parameters), None)
    kept = {
        path[1]: number[1]
        for path, number in after.numbers.items()
        if len(path) == 2 and path[0] == receiver and is_parameter(number)
    }
    if kept and (decorator_names(function) or any(isinstance(node, ast.Return) for node in walk(function.node))):
        kept = {}  # it may end early
    if scope.facts.initial.peek(function.key) != kept:
        scope.facts.initial[function.key] = kept
