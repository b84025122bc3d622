"""Object numbers of evaluated expressions: equal numbers mean the same object."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.arguments import match_parameters, returned_attribute
from instrumentor.analysis.environment import is_parameter, path_of
from instrumentor.analysis.handed_back import handed_back
from instrumentor.analysis.members import constant_position
from instrumentor.analysis.values import (
    Atom,
    ClassRef,
    FunctionRef,
    Instance,
    Made,
    Parameter,
    Value,
    strip,
    value,
)
from instrumentor.resolve.nature import Nature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from instrumentor.analysis.arguments import Arguments
    from instrumentor.analysis.environment import Number
    from instrumentor.analysis.members import Members
    from instrumentor.analysis.scope import Scope
    from instrumentor.resolve.unit import Class, Function


class Numbering:
    """The object numbers of one scope's expressions."""

    def __init__(self, scope: Scope, members: Members) -> None:
        self.scope = scope
        self.facts = scope.facts
        self.members = members
        # The numbers of operands, and of results that calls return from their arguments.
        self._operands: dict[int, Number] = {}
        # By the call: the number of what the generator first and last yields; the attributes of the new instance.
        self._yielded: dict[int, Number] = {}
        self._initial: dict[int, dict[str, tuple[Value, Number]]] = {}

    def forget(self, node: ast.expr) -> None:
        """Forget the results of an expression that is evaluated again."""
        for kept in (self._operands, self._yielded, self._initial):
            kept.pop(id(node), None)

    def note_operand(self, node: ast.expr) -> None:
        """Record the number of an operand just evaluated, as the evaluation of later operands may change it."""
        self._operands[id(node)] = self.of(node)

    def of_operand(self, node: ast.expr) -> Number:
        """The number of the object that an operand gave; None if unknown."""
        return self._operands.get(id(node))

    def of(self, node: ast.expr) -> Number:
        """The number of the object that an expression, just evaluated, gave."""
        if id(node) in self._operands:
            return self._operands[id(node)]
        if isinstance(node, ast.Name):  # as most are
            return self.scope.number_at((node.id,), node)
        if isinstance(node, ast.NamedExpr):
            return self.scope.number_at((node.target.id,), node)
        if isinstance(node, ast.Constant):
            return None
        if isinstance(node, ast.Subscript) and (number := self._number_of_element(node)) is not None:
            return number
        if isinstance(node, ast.IfExp):
            number = self.of(node.body)
            return number if self.of(node.orelse) == number else ("made", self.scope.locate(node))
        path = path_of(node)
        if path is not None:
            return self.scope.number_at(path, node)
        function = node.func if isinstance(node, ast.Call) else None
        if isinstance(function, ast.Attribute) and function.attr in self.scope.hierarchy.knowledge.identity_methods:
            receiver = path_of(function.value)
            held = self.scope.env.get(receiver) if receiver is not None else None
            if held and all(self._gives_itself(strip(atom), function.attr) for atom in held):
                return self.of(function.value)
        return ("made", self.scope.locate(node))

    def _number_of_element(self, node: ast.Subscript) -> Number:
        """The number of an element of a display at a constant index; None for other elements."""
        display, position = node.value, constant_position(node.slice)
        elements = display.elts if isinstance(display, (ast.List, ast.Tuple)) else []
        if position is None or any(isinstance(each, ast.Starred) for each in elements):
            return None
        is_inside = -len(elements) <= position < len(elements)
        return self._operands.get(id(elements[position])) if is_inside else None

    def _gives_itself(self, atom: Atom, method: str) -> bool:
        """Whether the identity method of an object is that of nn.Module; for a parameter, of all its arguments."""
        if isinstance(atom, Parameter) and not self.scope.kinds.is_self(atom):
            passed = map(strip, self.facts.passed.to(atom))
            return all(not isinstance(each, Parameter) and self._gives_itself(each, method) for each in passed)
        return self.scope.kinds.is_module(atom) and self.scope.kinds.method_of(atom, method) is None

    def note_call(self, node: ast.Call, called: Value, arguments: Arguments) -> None:
        """Record which of its arguments a call returns, if the function does nothing else."""
        atom = next(iter(called)) if len(called) == 1 else None
        self._keep_initial(node, atom, arguments)
        function = self.scope.kinds.function_at(atom.key) if isinstance(atom, FunctionRef) else None
        self.facts.note_sole_callee(self.scope.key, ("made", self.scope.locate(node)), function)
        if function is None:
            return
        if function.key in self.facts.remembering and function.key not in self.facts.called_unseen:
            remembered = self._operands[id(node)] = ("made", self.scope.locate(function.node))
            self.facts.note_sole_callee(self.scope.key, remembered, function)
            return
        number = self._given_as(self.facts.returned_numbers.get(function.key), function, node, arguments)
        if number is None and function.key not in self.facts.called_unseen:
            number = handed_back(function, arguments, self._is_module)
        if number is not None and function.key not in self.facts.yields:
            self._operands[id(node)] = number
        yielded = self._given_as(self.facts.yielded_numbers.get(function.key), function, node, arguments)
        if yielded is not None:
            self._yielded[id(node)] = yielded

    def _is_module(self, held: Value) -> bool:
        """Whether a value is a module in every run, and never None."""
        known = [
            each for atom in held for each in (self.facts.passed.to(atom) if isinstance(atom, Parameter) else (atom,))
        ]
        return bool(known) and all(
            isinstance(atom, Made) and self.scope.kinds.nature(atom) is Nature.MODULE for atom in known
        )

    def _given_as(
        self, numbers: Mapping[int, Number] | None, function: Function, node: ast.Call, arguments: Arguments
    ) -> Number:
        """The number of a call's result, if the function only ever gives parameters that hold this one object."""
        own = set(numbers.values()) if numbers else set()
        names = [number[1] for number in own if is_parameter(number)]
        if not names or len(names) < len(own):
            return None
        given = self.scope.numbers_given(function, None, arguments)
        found = {
            given.get(name) or self.facts.number_passed(function.key, name, node, self.scope.key) for name in names
        }
        return found.pop() if len(found) == 1 else None

    def _keep_initial(self, node: ast.Call, made: Atom | None, arguments: Arguments) -> None:
        """Record the attributes of a new instance, as far as its class leaves arguments in them."""
        cls = self.scope.kinds.class_of(made.key) if isinstance(made, ClassRef) else None
        if cls is None or arguments.rest or not self._is_transparent(cls):
            return
        initialiser = self.scope.hierarchy.method(cls, "__init__")
        kept = None if initialiser is None else self.facts.initial.get(initialiser.key)
        if initialiser is None or not kept:
            return
        receiver = value(Instance(cls.key))
        numbers = self.scope.numbers_given(initialiser, receiver, arguments)
        held = match_parameters(initialiser, receiver, arguments)
        self._initial[id(node)] = {
            attribute: (held[name], numbers[name])
            for attribute, name in kept.items()
            if name in held and numbers.get(name) is not None
        }

    def _is_transparent(self, cls: Class) -> bool:
        """Whether an instance of a class is no module and its attributes give back what was stored."""
        hierarchy = self.scope.hierarchy
        bases = hierarchy.library_bases(cls)
        return (
            hierarchy.nature(cls) is Nature.NOT_MODULE
            and all(base is not None and base.startswith("builtins.object") for base in bases)
            and not any(hierarchy.method(cls, name) for name in ("__new__", "__setattr__", "__getattribute__"))
            and not any(each.node.decorator_list or each.node.keywords for each in hierarchy.ancestors(cls))
        )

    def initial_of(self, node: ast.expr) -> Mapping[str, tuple[Value, Number]]:
        """The known attributes of the instance that an expression has just made."""
        return self._initial.get(id(node), {})

    def entered(self, node: ast.expr, held: Value) -> tuple[Value, Number] | None:
        """The value that `with` binds for a context made by a call, and its object number; None if unknown.

        Args:
            node: the context expression, just evaluated.
            held: its value.
        """
        if id(node) in self._yielded:
            return self.members.elements(held), self._yielded[id(node)]
        atom = next(iter(held)) if len(held) == 1 else None
        cls = self.scope.kinds.class_of(atom.key) if isinstance(atom, Instance) else None
        enter = None if cls is None else self.scope.hierarchy.method(cls, "__enter__")
        return None if enter is None else self.initial_of(node).get(f".{returned_attribute(enter)}")
