"""The arguments of calls, and how they are matched with parameters."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from instrumentor.analysis.values import NOTHING, ClassRef, Value, join
from instrumentor.resolve.bindings import spelling
from instrumentor.source.nodes import decorators_of, last_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from instrumentor.analysis.environment import Number
    from instrumentor.resolve.unit import Function

_PROPERTIES = frozenset({"property", "cached_property"})
_MODULE_KEYWORDS = ("model", "module", "models", "val")


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call.

    Attributes:
        positional: the positional arguments up to the first starred one.
        keywords: the keyword arguments.
        rest: the elements of starred containers, and all arguments after them. They may reach any remaining parameter.
        starred: the same, with one value for each argument. Containers are not unpacked.
        numbers: object numbers of positional and keyword arguments, where known. Equal numbers mean the same object.
    """

    positional: tuple[Value, ...] = ()
    keywords: dict[str, Value] = field(default_factory=dict)
    rest: Value = NOTHING
    starred: tuple[Value, ...] = ()
    numbers: Mapping[int | str, Number] = field(default_factory=dict, compare=False)

    def each(self) -> list[Value]:
        """The values of the arguments, one each."""
        return [*self.positional, *self.keywords.values(), *(self.starred or (self.rest,))]

    def all(self) -> Value:
        """The join of all arguments, including the elements of starred containers."""
        return self._all

    @cached_property
    def _all(self) -> Value:
        return join([*self.positional, *self.keywords.values(), self.rest])

    def module(self) -> Value:
        """The argument that functions operating on modules take first."""
        if self.positional:
            return self.positional[0]
        return next((self.keywords[name] for name in _MODULE_KEYWORDS if name in self.keywords), self.rest)

    def at(self, position: int, name: str = "") -> Value:
        """The argument at a position or with a name; `rest` if there is none."""
        if position < len(self.positional):
            return self.positional[position]
        return self.keywords.get(name, self.rest)

    def behind(self, bound: Arguments) -> Arguments:
        """These arguments appended to those that a partial application has bound."""
        if bound.rest:
            return Arguments(
                bound.positional, {**bound.keywords, **self.keywords}, join((bound.rest, *self.positional, self.rest))
            )
        return Arguments((*bound.positional, *self.positional), {**bound.keywords, **self.keywords}, self.rest)

    def joined(self, other: Arguments) -> Arguments:
        """The join of the arguments of two calls."""
        if self == other:
            return self
        if len(self.positional) != len(other.positional):
            return Arguments((), {**self.keywords, **other.keywords}, join((self.all(), other.all())))
        names = dict.fromkeys((*self.keywords, *other.keywords))
        return Arguments(
            tuple(join(pair) for pair in zip(self.positional, other.positional, strict=True)),
            {name: join((self.keywords.get(name, NOTHING), other.keywords.get(name, NOTHING))) for name in names},
            join((self.rest, other.rest)),
        )


def written_arguments(node: ast.expr) -> list[ast.expr]:
    """The positional arguments in the text of a call; none for a decorator, whose call is implicit."""
    return node.args if isinstance(node, ast.Call) else []


def written_prefix(written: Sequence[ast.expr]) -> str:
    """The constant prefix of a computed attribute name, as in `getattr(self, f"on_{event}")`."""
    name = (*written, None, None)[1]
    if isinstance(name, ast.BinOp) and isinstance(name.op, ast.Add):
        name = name.left
    if isinstance(name, ast.JoinedStr) and name.values:
        name = name.values[0]
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else ""


def returned_attribute(method: Function) -> str | None:
    """The attribute of its object that a method returns, if it does nothing else."""
    body = [] if isinstance(method.node, ast.Lambda) else method.node.body
    last = body[-1] if len(body) == 1 else None
    returned = last.value if isinstance(last, ast.Return) and isinstance(method.node, ast.FunctionDef) else None
    if not isinstance(returned, ast.Attribute) or not isinstance(returned.value, ast.Name):
        return None
    is_own = method.parameters[:1] == (returned.value.id,) and not method.node.decorator_list  # type: ignore[union-attr]
    return returned.attr if is_own else None


def is_property(function: Function) -> bool:
    """Whether reading a method calls it."""
    return not _PROPERTIES.isdisjoint(decorator_names(function))


def decorator_names(function: Function) -> set[str]:
    """The last components of the names of a function's decorators."""
    return set(map(last_name, decorators_of(function.node)))


def is_dispatching(function: Function) -> bool:
    """Whether a function calls others in its place: those registered with it, by the type of its first argument."""
    return "singledispatch" in decorator_names(function)


def registered_with(function: Function) -> list[Function]:
    """The functions of its file that a dispatching function may call in its place: those under `@name.register`."""
    return [
        each
        for each in function.unit.function_of.values()
        if any(spelling(decorator) == f"{function.name}.register" for decorator in decorators_of(each.node))
    ]


def match_parameters(function: Function, receiver: Value | None, arguments: Arguments) -> dict[str, Value]:
    """The values passed for each parameter of a function, by name, without defaults."""
    declared = function.node.args
    names = function.positional
    given: dict[str, Value] = {}
    if receiver is not None and names and _gets_receiver(function, receiver):
        given[names[0]] = receiver
        names = names[1:]
    given.update(zip(names, arguments.positional, strict=False))
    over = arguments.positional[len(names) :]
    if declared.vararg is not None and (over or arguments.rest):
        given[declared.vararg.arg] = join([*over, arguments.rest])
    if not arguments.keywords and not arguments.rest:
        return given
    known = {*names, *(each.arg for each in declared.kwonlyargs)}
    for name, held in arguments.keywords.items():
        if name in known:
            given[name] = held
        elif declared.kwarg is not None:
            given[declared.kwarg.arg] = join((given.get(declared.kwarg.arg, NOTHING), held))
    if arguments.rest:
        if declared.kwarg is not None:
            given[declared.kwarg.arg] = join((given.get(declared.kwarg.arg, NOTHING), arguments.rest))
        for name in known - given.keys():
            given[name] = arguments.rest
    return given


def match_numbers(function: Function, receiver: Value | None, arguments: Arguments) -> dict[str, Number]:
    """The object numbers of the values passed for parameters, by name, where known."""
    if not arguments.numbers:
        return {}
    names = function.positional
    known = set(function.parameters)
    if receiver is not None and names and _gets_receiver(function, receiver):
        known.discard(names[0])
        names = names[1:]
    given = ((names[key] if key < len(names) else "") if isinstance(key, int) else key for key in arguments.numbers)
    return {name: number for name, number in zip(given, arguments.numbers.values(), strict=True) if name in known}


def _gets_receiver(function: Function, receiver: Value) -> bool:
    """Whether the receiver is passed as a method's first parameter.

    `Class.method(instance)` passes the instance explicitly. A class as receiver is passed to class methods only.
    """
    decorators = decorator_names(function)
    if "staticmethod" in decorators or function.owner is None:
        return False
    return "classmethod" in decorators or not all(isinstance(atom, ClassRef) for atom in receiver)
