"""What each access path holds at one point of a function."""

from __future__ import annotations

import ast
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from instrumentor.analysis.values import NOTHING, join

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from typing import TypeGuard

    from instrumentor.analysis.values import Value

_K = TypeVar("_K")
_V = TypeVar("_V")
# `model` is ("model",), `self.net` is ("self", ".net"), `nets["g"]` is ("nets", "['g']").
Path = tuple[str, ...]
# Equal for paths that hold the very same object; None where that is not known.
Number = object
PARAMETER = "parameter"
# Steps of paths that stand for all of their kind.
ANY_ELEMENT, ANY_ATTRIBUTE = "[*]", ".*"
# The last element of a list or tuple, which an index from the start finds as well.
LAST_ELEMENT = "[-1]"
# The joins that are named by a loop and lie behind its rounds.
BEHIND, LAST = "behind", "last"
BEHIND_LOOPS = frozenset({BEHIND, LAST})


def is_parameter(number: Number) -> TypeGuard[tuple[str, str]]:
    """Whether a number is that of what a parameter is given, whose name is its second part."""
    return isinstance(number, tuple) and number[0] == PARAMETER


class Trace:
    """What a statement asks the environment for, and does to it.

    Attributes:
        read: the names that it asked for, or for what lies under them.
        stored: the names that it let hold something, or forgot, or changed what lies under them.
        is_wide: whether what it did may depend on any attributes and elements, and change any.
        outside: the names of which it asked whether they belong to the scopes around.
        is_whole: whether it asked for all that there is.
    """

    __slots__ = ("is_whole", "is_wide", "outside", "read", "stored")

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.stored: set[str] = set()
        self.outside: set[str] = set()
        self.is_wide = False
        self.is_whole = False


class Environment:
    """What names and the paths through objects hold; copied at branches.

    Most copies are never changed: they share their tables until one of them is.

    Attributes:
        names: what each name holds.
        objects: what each path through an object holds.
        numbers: which paths hold the very same object: those with one number. Paths without one are not known.
        trace: where it is noted what is asked for; shared with the copies made meanwhile.
    """

    def __init__(
        self,
        names: Mapping[str, Value] = MappingProxyType({}),
        objects: Mapping[Path, Value] = MappingProxyType({}),
        numbers: Mapping[Path, Number] = MappingProxyType({}),
    ) -> None:
        self.names = names
        self.objects = objects
        self.numbers = numbers
        # The same tables, where nothing else has them.
        self._own_names: dict[str, Value] | None = None
        self._own_objects: dict[Path, Value] | None = None
        self._own_numbers: dict[Path, Number] | None = None
        self.trace: Trace | None = None

    def copy(self) -> Environment:
        """An independent copy."""
        self._own_names = self._own_objects = self._own_numbers = None
        found = Environment(self.names, self.objects, self.numbers)
        found.trace = self.trace
        return found

    def numbered_as(self, other: Environment) -> Environment:
        """A copy in which those paths hold the very same object that do so in another environment."""
        return Environment(self.copy().names, self.objects, other.copy().numbers)

    def get(self, path: Path) -> Value | None:
        """What `path` holds; None where this function has not said."""
        held = self.held(path[0])
        return held if len(path) == 1 else self.objects.get(path)

    def held(self, name: str) -> Value | None:
        """What a name holds; None where this function has not said."""
        if self.trace is not None:
            self.trace.read.add(name)
        return self.names.get(name)

    def number(self, path: Path) -> Number:
        """The number of what a path holds."""
        if self.trace is not None:
            self.trace.read.add(path[0])
        return self.numbers.get(path)

    def paths(self) -> list[Path]:
        """All paths that hold something."""
        if self.trace is not None:
            self.trace.is_whole = True
        return [*((name,) for name in self.names), *self.objects]

    def assign(self, path: Path, value: Value, number: Number = None) -> None:
        """Let `path` hold `value` and nothing else; what was under the old object is forgotten."""
        self._forget_below(path)
        if len(path) == 1:
            self._forget_number(path)
            self.rebind(path[0], value)
        else:
            # Another path may lead to the same object: its attribute of that name may have changed with it.
            self.may_store(path[-1], value)
            self._changed_objects()[path] = value
        if number is not None:
            self.renumber(path, number)

    def begin(self, path: Path, value: Value, number: Number) -> None:
        """Let the attribute of a new instance, which no other path leads to, hold `value`."""
        self._note_stored(path)
        self._changed_objects()[path] = value
        self.renumber(path, number)

    def rebind(self, name: str, value: Value) -> None:
        """Let a name hold `value`; what lies under it stays."""
        self._note_stored((name,))
        if self.names.get(name) is not value:  # else the tables stay those of the copies
            self._changed_names()[name] = value

    def may_hold(self, name: str, value: Value) -> None:
        """Let a name hold `value` too; what lies under what it held is forgotten."""
        self._forget_below((name,))
        self.rebind(name, join((self.held(name) or NOTHING, value)))
        self._forget_number((name,))

    def may_store(self, step: str, value: Value) -> None:
        """Let all paths that end in `step` hold `value` too; `[*]` stands for every element."""
        self._note_wide()
        for path in list(self.objects):
            is_other_way = path[-1][0] == step[0] == "[" and (step == ANY_ELEMENT or path[-1] == LAST_ELEMENT)
            if path[-1] == step or is_other_way:
                self._changed_objects()[path] = join((self.objects[path], value))
                self._forget_number(path)

    def number_at(self, path: Path, default: Number) -> Number:
        """The number of the object that a path holds; `default`, from now on, where it had none."""
        if self.number(path) is None:
            self.renumber(path, default)
        return self.numbers[path]

    def renumber(self, path: Path, number: Number) -> None:
        """Let a path hold the very same object as all others with a number."""
        self._note_stored(path)
        if self.numbers.get(path) is not number:
            self._changed_numbers()[path] = number

    def forget(self, path: Path) -> None:
        """Forget `path` and all that lies under it."""
        self._note_stored(path)
        if len(path) == 1:
            if path[0] in self.names:
                del self._changed_names()[path[0]]
            self._forget_number(path)
        self._forget_below(path)

    def steps(self) -> set[str]:
        """The attributes and elements through which paths lead that hold something; elements are all one step."""
        steps = set().union(*self.objects)
        return _kinds(("", *(each for each in steps if each[0] in ".[")))

    def forget_elements(self) -> None:
        """Forget what containers hold: their elements may have moved."""
        self.forget_steps({ANY_ELEMENT})

    def forget_steps(self, steps: AbstractSet[str]) -> None:
        """Forget what lies under some attributes, or elements: code that cannot be seen here may have changed it."""
        if steps:
            self._note_wide()
            self._forget_objects([path for path in self.objects if not steps.isdisjoint(_kinds(path))])

    def forget_objects(self) -> None:
        """Forget all attributes and elements: code that cannot be seen here may have changed them."""
        self._note_wide()
        self._forget_objects(list(self.objects))

    def _forget_below(self, path: Path) -> None:
        name = path[0]
        below = [other for other in self.objects if other[0] == name and other[: len(path)] == path]
        self._forget_objects(below)

    def _forget_objects(self, paths: Sequence[Path]) -> None:
        for path in paths:
            del self._changed_objects()[path]
            self._forget_number(path)

    def _note_stored(self, path: Path) -> None:
        if self.trace is not None:
            self.trace.stored.add(path[0])
            if len(path) > 1:
                self.trace.read.add(path[0])

    def _note_wide(self) -> None:
        if self.trace is not None:
            self.trace.is_wide = True

    def _forget_number(self, path: Path) -> None:
        if path in self.numbers:
            del self._changed_numbers()[path]

    # ---- to do again what was done ----

    def shares(self, other: Environment) -> bool:
        """Whether both have the very same tables."""
        return self.names is other.names and self.objects is other.objects and self.numbers is other.numbers

    def has_names_of(self, other: Environment, names: Collection[str]) -> bool:
        """Whether some names hold what they hold elsewhere, with the same numbers."""
        if self.names is not other.names:
            ours, theirs = self.names.get, other.names.get
            for name in names:
                held, before = ours(name), theirs(name)
                if held is not before and held != before:
                    return False
        if self.numbers is not other.numbers:
            our_number, their_number = self.numbers.get, other.numbers.get
            for name in names:
                path = (name,)
                number, before_number = our_number(path), their_number(path)
                if number is not before_number and number != before_number:
                    return False
        return True

    def has_objects_of(self, other: Environment, names: Collection[str] | None) -> bool:
        """Whether what lies under some names, or any for None, is what it is elsewhere, with the same numbers."""
        if self.objects is other.objects and self.numbers is other.numbers:
            return True
        return not any(
            len(path) > 1 and (names is None or path[0] in names)
            for ours, theirs in ((self.objects, other.objects), (self.numbers, other.numbers))
            for path in differences(ours, theirs)
        )

    def store(
        self,
        names: Mapping[str, Value | None],
        objects: Mapping[Path, Value | None],
        numbers: Mapping[Path, Number],
    ) -> None:
        """Let names and paths hold what they held elsewhere; None stands for those to forget."""
        for name, value in names.items():
            if value is not None:
                self._changed_names()[name] = value
            elif name in self.names:
                del self._changed_names()[name]
        for path, value in objects.items():
            if value is not None:
                self._changed_objects()[path] = value
            elif path in self.objects:
                del self._changed_objects()[path]
        for path, number in numbers.items():
            if number is not None:
                self._changed_numbers()[path] = number
            else:
                self._forget_number(path)

    def _changed_names(self) -> dict[str, Value]:
        if self._own_names is None:
            self.names = self._own_names = dict(self.names)
        return self._own_names

    def _changed_objects(self) -> dict[Path, Value]:
        if self._own_objects is None:
            self.objects = self._own_objects = dict(self.objects)
        return self._own_objects

    def _changed_numbers(self) -> dict[Path, Number]:
        if self._own_numbers is None:
            self.numbers = self._own_numbers = dict(self.numbers)
        return self._own_numbers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Environment) and (self.names, self.objects, self.numbers) == (
            other.names,
            other.objects,
            other.numbers,
        )

    __hash__ = None  # type: ignore[assignment]


def join_environments(environments: Iterable[Environment | None], place: Hashable = None) -> Environment | None:
    """What holds after any of several ways; None stands for a way that does not come through.

    Args:
        environments: the ways.
        place: names the join; paths that hold one object on each way hold one object behind it. Without it nothing
            is known of paths that hold different objects on different ways.
    """
    ways = [each.copy() for each in environments if each is not None]
    if len(ways) < 2:
        return ways[0] if ways else None
    # A name that one way has not bound would be an error to use there; an attribute may hold what it held before.
    joined = Environment(
        _join_tables(_distinct([way.names for way in ways]), keep_missing=True),
        _join_tables(_distinct([way.objects for way in ways]), keep_missing=False),
        _join_numbers(_distinct([way.numbers for way in ways]), place),
    )
    trace = joined.trace = ways[0].trace
    if trace is not None:
        trace.read |= trace.stored  # which hold behind one way what they held before
    return joined


def _distinct(tables: Sequence[Mapping[_K, _V]]) -> list[Mapping[_K, _V]]:
    """The tables without those that are shared with another way, which does not differ in them then."""
    return list({id(table): table for table in tables}.values())


def _join_tables(tables: Sequence[Mapping[_K, Value]], *, keep_missing: bool) -> Mapping[_K, Value]:
    """What several ways hold; most values are the very same, as ways differ in a few names."""
    if len(tables) == 1:
        return tables[0]
    held = dict(tables[0])
    for other in tables[1:]:
        for key, value in other.items():
            old = held.get(key)
            if old is None:
                if keep_missing:
                    held[key] = value
            elif old is not value:
                held[key] = join((old, value))
        if not keep_missing:
            for key in held.keys() - other.keys():
                del held[key]
    return held


def _join_numbers(tables: Sequence[Mapping[Path, Number]], place: Hashable) -> Mapping[Path, Number]:
    """Which paths hold the very same object behind several ways."""
    first, *rest = tables
    if not rest:
        return first
    numbers = dict(first)
    differing: list[Path] = []
    for path, number in first.items():
        for other in rest:
            found = other.get(path)
            if found is None:
                del numbers[path]
                break
            if found is not number and found != number:
                differing.append(path)
                break
    groups: dict[tuple[Number, ...], Path] = {}
    for path in sorted(differing):
        incoming = tuple(table.get(path) for table in tables)
        if place is None or None in incoming:
            del numbers[path]
        else:
            # Named by the paths that keep together, as a number made of numbers would grow with every join.
            numbers[path] = (place, groups.setdefault(incoming, path))
    return numbers


def differences(ours: Mapping[_K, object], theirs: Mapping[_K, object]) -> list[_K]:
    """The keys under which two tables have not the same."""
    if ours is theirs:
        return []
    # Most are the very same, which is seen faster than that they are equal.
    get = theirs.get
    found = [key for key, held in ours.items() if (other := get(key)) is not held and other != held]
    return [*found, *(key for key in theirs if key not in ours)]


def leave_loop(environment: Environment | None, entry: Environment, place: Hashable) -> Environment | None:
    """What holds behind a loop: the objects of its last round, which are not those of the rounds before."""
    if environment is None:
        return None
    before = set(entry.numbers.values())
    groups: dict[Number, Path] = {}
    for path, number in sorted(environment.numbers.items()):
        if number not in before:
            environment.renumber(path, (place, groups.setdefault(number, path)))
    return environment


def path_of(expression: ast.AST) -> Path | None:
    """The access path that an expression spells; None where it is none or its index is not constant."""
    if isinstance(expression, ast.Name):
        return (expression.id,)
    if isinstance(expression, ast.Attribute):
        above = path_of(expression.value)
        return None if above is None else (*above, f".{expression.attr}")
    if isinstance(expression, ast.Subscript) and (key := constant_key(expression.slice)) is not None:
        above = path_of(expression.value)
        return None if above is None else (*above, f"[{key}]")
    return None


def _kinds(path: Path) -> set[str]:
    """The steps of a path by what may change them."""
    kinds = {ANY_ELEMENT if step[0] == "[" else step for step in path[1:]}
    return kinds if kinds <= {ANY_ELEMENT} else {*kinds, ANY_ATTRIBUTE}


def constant_key(index: ast.expr) -> str | None:
    """A constant index as containers are keyed by it; None for others.

    Keys that are equal get one text (`d[1]` and `d[True]`). An index from the end is none: it moves.
    """
    if not isinstance(index, ast.Constant):
        return None
    held = index.value
    return repr(int(held)) if isinstance(held, (bool, float)) and held == held // 1 else repr(held)
