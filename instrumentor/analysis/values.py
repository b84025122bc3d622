"""Values: sets of the abstract objects that a name may hold."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field, fields
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.analysis.interned import Interned

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable


class SiteKey(NamedTuple):
    """The site of an object: an expression of a unit, and the path of the element if it gives a tuple."""

    unit: str
    line: int
    column: int
    end_line: int
    end_column: int
    path: tuple[int, ...] = ()


# Longer texts of abstract objects are replaced by their digests.
MAX_TEXT = 1_000


@dataclass(frozen=True, eq=False)
class Atom(metaclass=Interned):
    """An abstract object. Equal ones are identical, so sets of them are compared without looking into them.

    Attributes:
        is_object: whether it may be a module, by itself or as part of another object.
    """

    is_object: bool = field(init=False, repr=False, default=False)

    @cached_property
    def text(self) -> str:
        """Its parts as text, which is the same in every run; a digest if that is long, as tuples nest."""
        parts = (getattr(self, each.name) for each in fields(self) if each.init)
        whole = f"{type(self).__name__}({', '.join(map(_text_of, parts))})"
        return whole if len(whole) <= MAX_TEXT else hashlib.blake2b(whole.encode(), digest_size=16).hexdigest()


def _text_of(part: object) -> str:
    if isinstance(part, Atom):
        return part.text
    if isinstance(part, frozenset):
        return f"{{{', '.join(sorted(map(_text_of, part)))}}}"
    return f"({', '.join(map(_text_of, part))})" if isinstance(part, tuple) else str(part)


@dataclass(frozen=True, eq=False)
class Opaque(Atom):
    """Anything irrelevant or unknown."""


@dataclass(frozen=True, eq=False)
class Plain(Opaque):
    """A value that surely neither is nor holds a module: None, numbers, strings, truth values."""


@dataclass(frozen=True, eq=False)
class Foreign(Opaque):
    """Anything that unseen code may have put into a container or under a name, and what derives from it."""


@dataclass(frozen=True, eq=False)
class Widened(Foreign):
    """The atoms merged by widening: all that belong to the ranks from 1 to `rank`."""

    rank: int


@dataclass(frozen=True, eq=False)
class Named(Atom):
    """Something of a library, by its dotted name."""

    name: str


@dataclass(frozen=True, eq=False)
class UnitRef(Atom):
    """An imported file of the project."""

    unit: str


@dataclass(frozen=True, eq=False)
class ClassRef(Atom):
    """A class of the project."""

    key: str


@dataclass(frozen=True, eq=False)
class FunctionRef(Atom):
    """A function of the project."""

    key: str


@dataclass(frozen=True, eq=False)
class Partial(Atom):
    """A partial application of a callee; the facts store the bound arguments of its `site`."""

    callee: Atom
    site: SiteKey


@dataclass(frozen=True, eq=False)
class Method(Atom):
    """A bound method."""

    receiver: Atom
    name: str


@dataclass(frozen=True, eq=False)
class AnyMethod(Atom):
    """A bound method with a computed name; `prefix` is the known beginning of the name."""

    receiver: Instance
    prefix: str


@dataclass(frozen=True, eq=False)
class Super(Atom):
    """The result of `super()` in a class."""

    key: str


@dataclass(frozen=True, eq=False)
class Instance(Atom):
    """Any instance of a class of the project that is not a module class."""

    key: str


@dataclass(frozen=True, eq=False)
class Made(Atom):
    """The object that the call at a site makes."""

    is_object: bool = field(init=False, repr=False, default=True)

    site: SiteKey


@dataclass(frozen=True, eq=False)
class Parameter(Atom):
    """The value that a function's caller passes for a parameter."""

    is_object: bool = field(init=False, repr=False, default=True)

    function: str
    name: str


@dataclass(frozen=True, eq=False)
class View(Atom):
    """Something that depends on another object.

    Attributes:
        inner: that object.
        root: the object that `inner` is, is part of, or was computed from.
    """

    inner: Atom
    root: Atom = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", root(self.inner))


@dataclass(frozen=True, eq=False)
class Stand(View):
    """Something that stands for another object.

    Attributes:
        bare: that object, without wrappers.
    """

    bare: Atom = field(init=False, repr=False)
    is_object: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bare", strip(self.inner))
        object.__setattr__(self, "is_object", self.bare.is_object)


@dataclass(frozen=True, eq=False)
class Wrapper(Stand):
    """An object that holds a module and stands for it."""


@dataclass(frozen=True, eq=False)
class Unwrapped(Stand):
    """The module taken out of an object; `is_sure` if that is known to be a wrapper."""

    is_sure: bool


@dataclass(frozen=True, eq=False)
class Part(View):
    """A submodule of a module."""

    is_object: bool = field(init=False, repr=False, default=True)


@dataclass(frozen=True, eq=False)
class Derived(View):
    """A value computed from a module that is no module: parameters, a state dict, an output, an optimizer."""


@dataclass(frozen=True, eq=False)
class Scripted(View):
    """Another view of a module's parameters, such as its TorchScript form."""


@dataclass(frozen=True, eq=False)
class Pack(Atom):
    """A tuple of known length."""

    items: tuple[frozenset[Atom], ...]


@dataclass(frozen=True, eq=False)
class Box(Atom):
    """A list, dict or other container; the facts store its contents."""

    site: SiteKey


Value = frozenset[Atom]
OPAQUE: Value = frozenset({Opaque()})
FOREIGN: Value = frozenset({Foreign()})
PLAIN: Value = frozenset({Plain()})
NOTHING: Value = frozenset()
# A program has finitely many abstract objects. These bounds also keep those composed of others finite.
MAX_TUPLE_DEPTH = 3
MAX_NAME_PARTS = 7
# Limits on how many atoms of each rank a stored value distinguishes. Rank 1: parts, results and library names. Rank 2:
# parameters, containers, instances. Rank 3: objects and what makes them, which decisions need and model zoos list.
_RANKS: dict[type[Atom], int] = {
    **dict.fromkeys((Opaque, Plain, Foreign, Widened), 0),
    **dict.fromkeys((Part, Derived, Scripted, Named), 1),
    **dict.fromkeys((Parameter, Partial, Method, AnyMethod, Super, UnitRef, Instance, Pack, Box), 2),
    **dict.fromkeys((Made, Wrapper, Unwrapped, ClassRef, FunctionRef), 3),
}
MAX_TOLD_APART = {1: 24, 2: 24, 3: 96}
_WIDENED = {rank: Widened(rank) for rank in MAX_TOLD_APART}
_ANY_WIDENED = frozenset(_WIDENED.values())
_WIDENED_THINGS = frozenset((_WIDENED[2], _WIDENED[3]))
_ALWAYS_TOLD_APART = min(MAX_TOLD_APART.values())


def in_order(held: Collection[Atom]) -> Iterable[Atom]:
    """Atoms in an order that is the same in every run, for results that depend on it."""
    return held if len(held) < 2 else sorted(held, key=attrgetter("text"))


def value(*atoms: Atom) -> Value:
    """The value consisting of `atoms`."""
    return frozenset(atoms)


def join(values: Iterable[Value]) -> Value:
    """The union of values. Tuples of one length are joined element by element."""
    first: Value | None = None
    rest: list[Value] = []
    for each in values:
        if first is None:
            first = each
        elif each is not first:
            rest.append(each)
    if first is None:
        return NOTHING
    if not rest:
        return first
    together = first.union(*rest)
    for each in (first, *rest):
        if len(each) == len(together):
            return each  # the identical object, which makes later comparisons fast
    if Pack not in map(type, together):
        return together  # the common case: no tuples to join
    packs: dict[int, list[Pack]] = {}
    for atom in together:
        if isinstance(atom, Pack):
            packs.setdefault(len(atom.items), []).append(atom)
    if any(len(group) > 1 for group in packs.values()):
        others = frozenset(atom for atom in together if not isinstance(atom, Pack))
        joined = (
            Pack(tuple(join(items) for items in zip(*(pack.items for pack in group), strict=True)))
            for group in packs.values()
        )
        together = others | frozenset(joined)
    return together


def grown(old: Value | None, added: Value) -> Value:
    """A stored value after adding to it. Too many atoms are widened to one, of which nothing is known.

    In code that passes everything to everything, every name would hold a view of every object, and views of views.
    Widening is permanent: atoms added later are merged too. The atoms lost must be given up, see `let_go`.
    """
    if old is not None and added <= old:
        return old
    together = added if old is None else join((old, added))
    if len(together) <= _ALWAYS_TOLD_APART and together.isdisjoint(_ANY_WIDENED):
        return together
    rank = max((each for each, atom in _WIDENED.items() if atom in together), default=0)
    counts = Counter(_RANKS[type(atom)] for atom in together)
    rank = max([rank, *(each for each, most in MAX_TOLD_APART.items() if counts[each] > most)])
    if rank == 0:
        return together
    kept = (atom for atom in together if not isinstance(atom, Widened) and not 0 < _RANKS[type(atom)] <= rank)
    return frozenset((*kept, _WIDENED[rank]))


def let_go(old: Value | None, added: Value, new: Value) -> Value:
    """The atoms lost by widening that unseen code might call or change.

    Args:
        old: the value before.
        added: what was added.
        new: the result of `grown`.
    """
    if new.isdisjoint(_WIDENED_THINGS):
        return NOTHING
    lost = (added if old is None else old | added) - new
    return frozenset(atom for atom in lost if _RANKS[type(atom)] > 1)


def pack(items: Iterable[Value]) -> Value:
    """A tuple of `items`. Tuples nested too deeply in it are unknown.

    Otherwise, a function that returns its argument in a tuple and is called with its own result would never converge.
    """
    return frozenset({Pack(tuple(_cut(item, MAX_TUPLE_DEPTH - 1) for item in items))})


def _cut(value_: Value, depth: int) -> Value:
    """The value with tuples nested at most `depth` deep."""
    if not any(isinstance(atom, Pack) for atom in value_):
        return value_
    if depth == 0:
        return frozenset(Opaque() if isinstance(atom, Pack) else atom for atom in value_)
    return frozenset(
        Pack(tuple(_cut(item, depth - 1) for item in atom.items)) if isinstance(atom, Pack) else atom for atom in value_
    )


def known(value_: Value) -> Value:
    """The value without opaque atoms."""
    return frozenset(atom for atom in value_ if not isinstance(atom, Opaque))


def tuple_depth(elements: tuple[Value, ...]) -> int:
    """The nesting depth of a tuple with these elements; 1 if none is a tuple."""
    inner = [tuple_depth(atom.items) for element in elements for atom in element if isinstance(atom, Pack)]
    return 1 + max(inner, default=0)


def member(library: str, name: str) -> Value:
    """A member of something of a library; unknown if the name gets too long, or lies below a computed one."""
    if name == "*" and library.endswith(".*"):
        return value(Named(library))
    parts = library.split(".")
    is_far = len(parts) >= (3 if parts[0] == "builtins" else MAX_NAME_PARTS) or "*" in parts[:-1]
    return OPAQUE if is_far else value(Named(f"{library}.{name}"))


def wrap(atom: Atom) -> Atom:
    """The wrapper of `atom`. A wrapper of a wrapper stands for the same object."""
    return atom if isinstance(atom, Wrapper) else Wrapper(strip(atom))


def unwrap(atom: Atom) -> Atom:
    """The object inside `atom`, or `atom` itself if it is no wrapper."""
    return Unwrapped(strip(atom), isinstance(atom, Wrapper) or (isinstance(atom, Unwrapped) and atom.is_sure))


def strip(atom: Atom) -> Atom:
    """The object that `atom` stands for, without wrappers."""
    return atom.bare if isinstance(atom, Stand) else atom


def bare_objects(atoms: Iterable[Atom]) -> list[Made | Parameter]:
    """The objects among atoms that events are recorded for, without wrappers."""
    return [key for key in map(strip, atoms) if isinstance(key, (Made, Parameter))]


def objects_in(value_: Value) -> frozenset[Atom]:
    """The objects that a value may be, without wrappers."""
    return frozenset([strip(atom) for atom in value_ if atom.is_object])


def root(atom: Atom) -> Atom:
    """The object that `atom` is, is part of, or was computed from."""
    return atom.root if isinstance(atom, View) else atom


def derive(value_: Value) -> Value:
    """The value computed from the objects in `value_`; unknown if there is none."""
    roots = {root(atom) for atom in value_ if not isinstance(atom, Opaque)}
    return frozenset(Derived(each) for each in roots if isinstance(each, (Made, Parameter))) or OPAQUE


def functions_in(value_: Value) -> frozenset[str]:
    """The keys of the functions whose parameters occur in a value, at any depth."""
    found: set[str] = set()
    for atom in value_:
        base = root(atom)
        if type(base) is Parameter:
            found.add(base.function)
        elif type(base) is Pack:
            found.update(function for item in base.items for function in functions_in(item))
    return frozenset(found)


def replace(value_: Value, change: Callable[[Atom], Value | None]) -> Value:
    """The value with each atom, at any depth, replaced by the result of `change`; None keeps the atom."""
    kept: list[Atom] = []
    changed: list[Value] = []
    for atom in value_:
        found = _replace(atom, change)
        if found is None:
            kept.append(atom)
        else:
            changed.append(found)
    return join([frozenset(kept), *changed]) if changed else value_


def _part_of(whole: Atom) -> Value:
    """A part of `whole`; of a tuple, any element."""
    if isinstance(whole, Pack):
        return join(whole.items)
    if _is_followed(whole):
        return value(Part(root(whole)))
    return FOREIGN if isinstance(root(whole), (Box, Foreign)) else OPAQUE


def _is_followed(atom: Atom) -> bool:
    """Whether derived atoms are distinguished by this root."""
    return isinstance(root(atom), (Made, Parameter, Instance))


def _replace(atom: Atom, change: Callable[[Atom], Value | None]) -> Value | None:
    """The replacement of an atom; None if it stays."""
    changed = change(atom)
    if changed is not None:
        return changed
    if isinstance(atom, Pack):
        items = [replace(item, change) for item in atom.items]
        return None if all(new is old for new, old in zip(items, atom.items, strict=True)) else pack(items)
    inside = _replace(atom.inner, change) if isinstance(atom, View) else None
    if inside is None:
        return None
    if isinstance(atom, Wrapper):
        return frozenset(wrap(inner) if inner.is_object else inner for inner in inside)
    if isinstance(atom, Unwrapped):
        return frozenset(Unwrapped(strip(inner), atom.is_sure) if inner.is_object else inner for inner in inside)
    if isinstance(atom, Part):
        return join(_part_of(inner) for inner in inside)
    kind = Derived if isinstance(atom, Derived) else Scripted
    return frozenset(kind(root(inner)) if _is_followed(inner) else Opaque() for inner in inside)
