"""What the facts keep: the places where objects come into being, the stores, and what happens to objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.analysis.values import NOTHING, Made, SiteKey, Value
from instrumentor.resolve.nature import Nature

if TYPE_CHECKING:
    import ast

    from instrumentor.analysis.environment import Number
    from instrumentor.resolve.units import Function, Unit


@dataclass
class Site:
    """A place where an object comes into being; what is known of it grows by `Facts.grow_site`.

    Attributes:
        key: where.
        node: the call, or for `is_read` the expression that fetches an object nobody knows.
        unit: the file it stands in.
        function: the function it stands in; None at the top of a file or class.
        nature: what it makes.
        labels: the classes or functions called there.
        class_keys: the project's module classes called there.
        origins: the sites in the functions called there whose fresh object it hands on.
        arguments: the objects passed in.
        callee: for what an object gives that is called without being known, that object.
        is_copy: it makes a module if it is given one.
        is_read: it may give an object made elsewhere, which cannot be seen.
        is_own: it may make an object itself, besides those that it hands on.
    """

    key: SiteKey
    node: ast.expr
    unit: Unit
    function: Function | None
    nature: Nature = Nature.NOT_MODULE
    labels: list[str] = field(default_factory=list)
    class_keys: set[str] = field(default_factory=set)
    origins: set[SiteKey] = field(default_factory=set)
    arguments: Value = NOTHING
    callee: Value = NOTHING
    is_copy: bool = False
    is_read: bool = False
    is_own: bool = False

    @cached_property
    def value(self) -> Value:
        """What it makes."""
        return frozenset({Made(self.key)})

    @property
    def scope(self) -> str:
        """The key of the scope it stands in."""
        return scope_key(self.unit, self.function)


class Binding(NamedTuple):
    """One target of one statement with what it may hold.

    Attributes:
        statement: the statement.
        target: the expression stored to; for a parameter's default the parameter's node.
        text: the target as people read it.
        value: what is stored.
        receiver: for attributes and subscripts, the object stored into.
        source: the expression the value comes from, where it is one.
        number: equal for stores of the very same object in one round of the loops and one call of the function around
            them; None where that is not known.
    """

    unit: Unit
    function: Function | None
    statement: ast.stmt
    target: ast.AST
    text: str
    value: Value
    receiver: Value = NOTHING
    source: ast.expr | None = None
    number: Number = None


class Event(NamedTuple):
    """Something that happens to an object at an expression.

    Attributes:
        is_sure: it happens to the object whenever the expression is evaluated, and not to another in its place.
        into: for what becomes part of an object whose method or attribute is named there, that object.
        made_in: where the expression calls a function that makes the module which the object becomes part of: the
            file of that function.
    """

    unit: Unit
    function: Function | None
    node: ast.AST
    text: str = ""
    is_sure: bool = True
    into: Value = NOTHING
    made_in: str | None = None


class Giving(NamedTuple):
    """What a call hands to code that cannot be seen.

    Attributes:
        callee: what is called, as it is known or as it is written.
        held: the classes among it, and what may stand for one: partial applications and parameters.
    """

    unit: Unit
    node: ast.expr
    callee: str
    held: Value


def scope_key(unit: Unit, function: Function | None) -> str:
    """What a function, or for None the top of a file, is called as a scope."""
    return unit.name if function is None else function.key
