"""Abstract values of expressions in library sources."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from instrumentor.resolve.installed import ClassDefinition, Definition, FunctionDefinition, Module
    from instrumentor.resolve.module_facts import FunctionFacts
    from instrumentor.resolve.nature import Nature

_MAX_VALUES = 24
_MODULE_KEYWORDS = ("model", "module")


@dataclass(frozen=True)
class Value:
    """One value that an expression may have."""


@dataclass(frozen=True)
class Fresh(Value):
    """A new object of a class.

    Attributes:
        name: the class, under the module that defines it; the callee's name if the class is unknown.
        nature: its nature.
        place: where it was found (`timm/models/resnet.py:350`); empty if only the catalogue knows it.
        is_annotated: whether only an annotation says so.
        cls: the class, if its source was read.
        arguments: the arguments that it was made with.
    """

    name: str
    nature: Nature
    place: str = ""
    is_annotated: bool = False
    cls: ClassDefinition | None = field(default=None, compare=False)
    arguments: tuple[Lazy, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Argument(Value):
    """The caller's argument for one parameter."""

    position: int | None
    name: str


@dataclass(frozen=True)
class Wrapped(Value):
    """An object that wraps the caller's argument and stands for it."""

    inner: Argument


@dataclass(frozen=True)
class Several(Value):
    """A tuple of known length."""

    items: tuple[frozenset[Value], ...]


@dataclass(frozen=True)
class Unseen(Value):
    """An unknown value."""


@dataclass(frozen=True)
class Defined(Value):
    """A module, class, function or name itself."""

    definition: Definition


@dataclass(frozen=True)
class Method(Value):
    """A bound method."""

    function: FunctionDefinition
    receiver: Value


@dataclass(frozen=True)
class PartialCall(Value):
    """A partial application."""

    callee: Value
    arguments: Arguments = field(compare=False, repr=False)


@dataclass(frozen=True)
class Same(Value):
    """A method that returns its receiver."""

    receiver: Value


@dataclass(frozen=True)
class Above(Value):
    """The result of `super()`."""

    cls: ClassDefinition
    receiver: Value


@dataclass(frozen=True)
class Word(Value):
    """A string."""

    text: str


@dataclass(frozen=True)
class Collection(Value):
    """A container, whose elements are not distinguished."""

    values: frozenset[Value]


Values = frozenset[Value]


class Lazy:
    """A value that is computed on demand, as most arguments are never needed."""

    def __init__(self, find: Callable[[], Values]) -> None:
        self._find: Callable[[], Values] | None = find
        self._values: Values = frozenset()

    def __call__(self) -> Values:
        """The value."""
        if self._find is not None:
            find, self._find = self._find, None  # a value that depends on itself is empty meanwhile
            self._values = find()
        return self._values


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call."""

    positional: tuple[Lazy, ...]
    keywords: dict[str, Lazy]

    def first(self) -> Values:
        """The argument that functions operating on modules take first."""
        if self.positional:
            return self.positional[0]()
        return next((self.keywords[name]() for name in _MODULE_KEYWORDS if name in self.keywords), NOTHING)

    def with_more(self, more: Arguments | None) -> Arguments:
        """These arguments followed by those of a later call."""
        if more is None:
            return self
        return Arguments((*self.positional, *more.positional), {**self.keywords, **more.keywords})


UNSEEN: Values = frozenset({Unseen()})
NOTHING: Values = frozenset()


@dataclass(eq=False)
class Frame:
    """One call of a function, or the top level of a module."""

    module: Module
    function: FunctionDefinition | None = None
    parameters: dict[str, Lazy] = field(default_factory=dict)
    busy: frozenset[str] = frozenset()
    names: dict[str, Values] = field(default_factory=dict)

    def parameter(self, name: str) -> Values:
        """The value of a parameter."""
        return self.parameters[name]() if name in self.parameters else NOTHING


def join(values: Iterable[Values]) -> Values:
    """The union of values, limited in size."""
    found: set[Value] = set()
    for each in values:
        found |= each
    if len(found) > _MAX_VALUES:
        return frozenset(sorted(found, key=repr)[:_MAX_VALUES])
    return frozenset(found)


def bind(facts: FunctionFacts, receiver: Value | None, arguments: Arguments | None) -> dict[str, Lazy]:
    """The value of each parameter. If `arguments` is None, the parameters stand for themselves."""
    names = list(facts.parameters)
    bound: dict[str, Lazy] = {}
    positional = facts.positional
    is_class = isinstance(receiver, Defined)
    if receiver is not None and names and facts.kind != "static" and (not is_class or facts.kind == "class"):
        bound[names.pop(0)] = known(receiver)
        positional -= 1
    if arguments is None:
        given = {
            name: known(Argument(position if position < positional else None, name))
            for position, name in enumerate(names)
        }
        return {**bound, **given}
    bound.update(zip(names[:positional], arguments.positional, strict=False))
    bound.update((name, values) for name, values in arguments.keywords.items() if name in names)
    return bound


def known(value: Value) -> Lazy:
    """A value that needs no computation."""
    return Lazy(lambda: frozenset({value}))


def words(values: Values) -> Iterator[str]:
    """The strings in a value, in the order of their tables as far as it is known."""
    for each in sorted(values, key=repr):
        if isinstance(each, Word):
            yield each.text
        elif isinstance(each, Several):
            for item in each.items:
                yield from words(item)
        elif isinstance(each, Collection):
            yield from words(each.values)


def is_telling(value: Value) -> bool:
    """Whether a value says anything about what is returned."""
    return not isinstance(value, (Unseen, Word))
