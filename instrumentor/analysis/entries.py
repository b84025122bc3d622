"""The entries of the facts: sites, bindings and events."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.analysis.values import NOTHING, Made, SiteKey, Value
from instrumentor.resolve.nature import Nature

if TYPE_CHECKING:
    import ast

    from instrumentor.analysis.environment import Number
    from instrumentor.resolve.unit import Function, Unit


@dataclass
class Site:
    """An expression that makes an object. What is known of it grows, by `Facts.grow_site`.

    Attributes:
        key: its position.
        node: the call; for `is_read` the expression that fetches an unknown object.
        unit: the file that contains it.
        function: the function that contains it; None at the top level of a file or class.
        nature: the nature of the object.
        labels: the classes or functions called there.
        class_keys: the project's module classes instantiated there.
        origins: sites in the called functions whose new object the call returns.
        arguments: the objects passed.
        callee: the unknown object whose call makes this one, if any.
        is_copy: it makes a module if it is passed one.
        is_read: it may give an unseen object that was made elsewhere.
        is_own: it may make an object itself, rather than return that of a called function.
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
        """Its abstract object, as a value."""
        return frozenset({Made(self.key)})

    @property
    def scope(self) -> str:
        """The key of the scope that contains it."""
        return scope_key(self.unit, self.function)


class Binding(NamedTuple):
    """A store to one target of a statement.

    Attributes:
        statement: the statement.
        target: the expression stored to; for a parameter's default, the parameter's node.
        text: the target as users read it.
        value: the stored value.
        receiver: for attributes and subscripts, the object stored into.
        source: the expression that gives the value, if there is one.
        number: equal for stores of the same object within one loop iteration and one call of the enclosing function;
            None if unknown.
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
        is_sure: whether it happens to this very object on every evaluation of the expression.
        into: for an object that becomes part of another, the receiver named there.
        made_in: if the expression calls a function that makes the enclosing module, the file of that function.
    """

    unit: Unit
    function: Function | None
    node: ast.AST
    text: str = ""
    is_sure: bool = True
    into: Value = NOTHING
    made_in: str | None = None


class Giving(NamedTuple):
    """The classes that a call passes to unseen code.

    Attributes:
        callee: the callee, by its resolved name or its text.
        held: the classes, and values that may stand for one: partial applications and parameters.
    """

    unit: Unit
    node: ast.expr
    callee: str
    held: Value


def scope_key(unit: Unit, function: Function | None) -> str:
    """The scope key of a function; of the top level of a file for None."""
    return unit.name if function is None else function.key
