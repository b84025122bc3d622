"""Object numbers of evaluated expressions: equal numbers mean the same object."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from instrumentor.analysis.environment import is_parameter, path_of
from instrumentor.analysis.members import constant_position
from instrumentor.analysis.values import (
    Atom,
    FunctionRef,
    Named,
    Parameter,
    Partial,
    Value,
    strip,
)
from instrumentor.resolve import catalogue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from instrumentor.analysis.arguments import Arguments
    from instrumentor.analysis.environment import Number
    from instrumentor.analysis.members import Members
    from instrumentor.analysis.scope import Scope
    from instrumentor.resolve.units import Function


class Numbering:
    """The object numbers of one scope's expressions."""

    def __init__(self, scope: Scope, members: Members) -> None:
        self.scope = scope
        self.facts = scope.facts
        self.members = members
        # The numbers of operands, and of results that calls return from their arguments.
        self._operands: dict[int, Number] = {}
        # The numbers of wrapped objects, by calls that only wrap.
        self._wrapped: dict[int, Number] = {}

    def forget(self, node: ast.expr) -> None:
        """Forget the results of an expression that is evaluated again."""
        self._operands.pop(id(node), None)
        self._wrapped.pop(id(node), None)

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
        if isinstance(node, ast.Attribute) and node.attr == "module" and id(node.value) in self._wrapped:
            return self._wrapped[id(node.value)]
        function = node.func if isinstance(node, ast.Call) else None
        if isinstance(function, ast.Attribute) and function.attr in self.scope.hierarchy.knowledge.identity_methods:
            receiver = path_of(function.value)
            held = self.scope.env.get(receiver) if receiver is not None else None
            if held and all(self._gives_itself(strip(atom), function.attr) for atom in held):
                return self.of(function.value)
        return ("made", self.scope.locate(node))

    def _number_of_element(self, node: ast.Subscript) -> Number:
        """The number of an element of a display; None for other elements."""
        if not isinstance(node.value, (ast.List, ast.Tuple)):
            return None
        element = displayed_element(node.value, node.slice)
        return ("made", self.scope.locate(node)) if element is None else self._operands.get(id(element))

    def _gives_itself(self, atom: Atom, method: str) -> bool:
        """Whether the identity method of an object is that of nn.Module; for a parameter, of all its arguments."""
        if isinstance(atom, Parameter) and not self.scope.kinds.is_self(atom):
            passed = map(strip, self.facts.passed.to(atom))
            return all(not isinstance(each, Parameter) and self._gives_itself(each, method) for each in passed)
        return self.scope.kinds.is_module(atom) and self.scope.kinds.method_of(atom, method) is None

    def note_call(self, node: ast.Call, called: Value, arguments: Arguments) -> None:
        """Record which of its arguments a call returns, if the function does nothing else."""
        atom = next(iter(called)) if len(called) == 1 else None
        if isinstance(atom, Partial) and isinstance(node.func, ast.Call) and atom.site == self.scope.locate(node.func):
            arguments = self._behind_bound(atom, node.func, arguments)
            atom = atom.callee
        function = self.scope.kinds.function_at(atom.key) if isinstance(atom, FunctionRef) else None
        self.facts.note_sole_callee(self.scope.key, ("made", self.scope.locate(node)), function)
        if function is None:
            return
        number = self._given_as(self.facts.returned_numbers.get(function.key), function, node, arguments)
        if number is not None and function.key not in self.facts.yields:
            self._operands[id(node)] = number

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

    def note_wrapped(self, node: ast.Call, called: Value, arguments: Arguments) -> None:
        """Record the object of a wrapper; `called` is the wrapper's class, or something that has it as a member."""
        if 0 not in arguments.numbers:
            return
        names = {atom.name if isinstance(atom, Named) else None for atom in called}
        if isinstance(node.func, ast.Attribute):
            names = {None if name is None else f"{name}.{node.func.attr}" for name in names}
        if names and all(name is not None and catalogue.is_bare_wrapper(name) for name in names):
            self._wrapped[id(node)] = arguments.numbers[0]

    def _behind_bound(self, partial: Partial, node: ast.Call, arguments: Arguments) -> Arguments:
        """The arguments of a partial application called where it is made, with the numbers of the bound ones."""
        given = arguments.behind(self.facts.bound_arguments[partial.site])
        if given.rest:
            return given
        numbers: dict[int | str, Number] = {
            **dict(enumerate(map(self.of_operand, node.args[1:]))),
            **{each.arg: self.of_operand(each.value) for each in node.keywords if each.arg is not None},
        }
        for key, number in arguments.numbers.items():
            numbers[key + len(node.args) - 1 if isinstance(key, int) else key] = number
        return replace(given, numbers={key: number for key, number in numbers.items() if number is not None})


def displayed_element(display: ast.List | ast.Tuple, index: ast.expr) -> ast.expr | None:
    """The element of a display at a constant index; None if unknown."""
    position = constant_position(index)
    if position is None or any(isinstance(each, ast.Starred) for each in display.elts):
        return None
    return display.elts[position] if -len(display.elts) <= position < len(display.elts) else None
