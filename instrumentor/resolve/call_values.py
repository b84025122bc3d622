"""What expressions in the sources of libraries may give, as sets of abstract values."""

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
    """One thing that an expression may give."""


@dataclass(frozen=True)
class Fresh(Value):
    """A new object of a class.

    Attributes:
        name: the class, under the module that defines it; the name called where the class is not seen.
        nature: what it is.
        place: where that was read (`timm/models/resnet.py:350`); empty for what the catalogue knows.
        is_annotated: only an annotation says so.
        cls: the class, where it was read.
    """

    name: str
    nature: Nature
    place: str = ""
    is_annotated: bool = False
    cls: ClassDefinition | None = field(default=None, compare=False)
    arguments: tuple[Lazy, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Argument(Value):
    """What the caller passes as one parameter."""

    position: int | None
    name: str


@dataclass(frozen=True)
class Wrapped(Value):
    """An object that holds the caller's argument and stands for it."""

    inner: Argument


@dataclass(frozen=True)
class Several(Value):
    """A tuple of known length."""

    items: tuple[frozenset[Value], ...]


@dataclass(frozen=True)
class Unseen(Value):
    """Something that the source does not tell."""


@dataclass(frozen=True)
class Defined(Value):
    """A module, class, function or name itself."""

    definition: Definition


@dataclass(frozen=True)
class Method(Value):
    """A method with what it was taken from."""

    function: FunctionDefinition
    receiver: Value


@dataclass(frozen=True)
class PartialCall(Value):
    """A function with some of its arguments given."""

    callee: Value
    arguments: Arguments = field(compare=False, repr=False)


@dataclass(frozen=True)
class Same(Value):
    """A method that returns its object."""

    receiver: Value


@dataclass(frozen=True)
class Above(Value):
    """What `super()` gives."""

    cls: ClassDefinition
    receiver: Value


@dataclass(frozen=True)
class Word(Value):
    """A string."""

    text: str


@dataclass(frozen=True)
class Collection(Value):
    """A container, any of whose values may be meant."""

    values: frozenset[Value]


Values = frozenset[Value]


class Lazy:
    """A value that is found out when it is asked for: most arguments never are."""

    def __init__(self, find: Callable[[], Values]) -> None:
        self._find: Callable[[], Values] | None = find
        self._values: Values = frozenset()

    def __call__(self) -> Values:
        """The value."""
        if self._find is not None:
            find, self._find = self._find, None  # one that leads to itself is nothing yet
            self._values = find()
        return self._values


@dataclass(frozen=True)
class Arguments:
    """What a call passes."""

    positional: tuple[Lazy, ...]
    keywords: dict[str, Lazy]

    def first(self) -> Values:
        """The argument that functions about modules take first."""
        if self.positional:
            return self.positional[0]()
        return next((self.keywords[name]() for name in _MODULE_KEYWORDS if name in self.keywords), NOTHING)

    def with_more(self, more: Arguments | None) -> Arguments:
        """These arguments, and those of a later call."""
        if more is None:
            return self
        return Arguments((*self.positional, *more.positional), {**self.keywords, **more.keywords})


UNSEEN: Values = frozenset({Unseen()})
NOTHING: Values = frozenset()


@dataclass(eq=False)
class Frame:
    """One call of a function, or the top of a module."""

    module: Module
    function: FunctionDefinition | None = None
    parameters: dict[str, Lazy] = field(default_factory=dict)
    busy: frozenset[str] = frozenset()
    names: dict[str, Values] = field(default_factory=dict)

    def parameter(self, name: str) -> Values:
        """What a parameter holds."""
        return self.parameters[name]() if name in self.parameters else NOTHING


def join(values: Iterable[Values]) -> Values:
    """What is any of `values`."""
    found: set[Value] = set()
    for each in values:
        found |= each
    if len(found) > _MAX_VALUES:
        return frozenset(sorted(found, key=repr)[:_MAX_VALUES])
    return frozenset(found)


def bind(facts: FunctionFacts, receiver: Value | None, arguments: Arguments | None) -> dict[str, Lazy]:
    """What each parameter holds; for any arguments, the parameters themselves."""
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
    """A value that is there already."""
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
