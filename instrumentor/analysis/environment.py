"""The values of access paths at one program point."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from instrumentor.analysis.persistent_map import PersistentMap
from instrumentor.analysis.values import NOTHING, join, objects_in
from instrumentor.analysis.version_index import VersionIndex

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from typing import TypeGuard

    from instrumentor.analysis.values import Atom, Value

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
# `model` is ("model",), `self.net` is ("self", ".net"), `nets["g"]` is ("nets", "['g']").
Path = tuple[str, ...]
# Equal for paths that surely hold the same object; None if unknown.
Number = object
PARAMETER = "parameter"
# Path steps that stand for all elements, or all attributes.
ANY_ELEMENT, ANY_ATTRIBUTE = "[*]", ".*"
# Names for the joins after a loop.
BEHIND, LAST = "behind", "last"
BEHIND_LOOPS = frozenset({BEHIND, LAST})
# With at most this many paths, scanning them is faster than an index.
_FEW = 16
_NO_NAMES: PersistentMap[str, Value] = PersistentMap()
_NO_PATHS: PersistentMap[Path, Value] = PersistentMap()
_NO_NUMBERS: PersistentMap[Path, Number] = PersistentMap()


def is_parameter(number: Number) -> TypeGuard[tuple[str, str]]:
    """Whether a number is that of a parameter's initial value; its second part is then the parameter's name."""
    return isinstance(number, tuple) and number[0] == PARAMETER


class Trace:
    """What a statement reads from the environment and writes to it.

    Attributes:
        read: the names that it read, or under which it read something.
        stored: the names that it bound or forgot, or under which it changed something.
        is_wide: whether its effect may depend on and change any attribute and element.
        steps: the attributes and elements that it stored to.
        outside: the names for which it asked whether they belong to enclosing scopes.
        is_whole: whether it read the whole environment.
    """

    __slots__ = ("is_whole", "is_wide", "outside", "read", "steps", "stored")

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.stored: set[str] = set()
        self.steps: set[str] = set()
        self.outside: set[str] = set()
        self.is_wide = False
        self.is_whole = False


class _Finder:
    """Indexes of the paths in the environments of one visit: by step, by number and by object."""

    def __init__(self) -> None:
        # The attributes and elements in the paths of the visit so far, in the order in which they occurred.
        self.met: dict[str, None] = {}
        self._paths_met: set[Path] = set()

    @cached_property
    def steps(self) -> VersionIndex[Path, Value]:
        """Finds paths by their names and steps."""
        return VersionIndex(lambda path, _held: {*path, *_kinds(path)})

    @cached_property
    def numbers(self) -> VersionIndex[Path, Number]:
        """Finds paths by their numbers."""
        return VersionIndex(lambda _path, number: (number,))

    @cached_property
    def named(self) -> VersionIndex[str, Value]:
        """Finds names by the objects that they hold."""
        return VersionIndex(lambda _name, held: objects_in(held))

    @cached_property
    def inside(self) -> VersionIndex[Path, Value]:
        """Finds paths through objects by the objects that they hold."""
        return VersionIndex(lambda _path, held: objects_in(held))

    def note(self, path: Path) -> None:
        """Record a path through an object."""
        if path not in self._paths_met:
            self._paths_met.add(path)
            self.met.update(dict.fromkeys(sorted(_kinds(path))))


class Snapshot(NamedTuple):
    """The contents of an environment at one moment."""

    names: PersistentMap[str, Value]
    objects: PersistentMap[Path, Value]
    numbers: PersistentMap[Path, Number]


class Environment:
    """The values of names and of paths through objects. Copied at branches.

    Attributes:
        names: the value of each name.
        objects: the value of each path through an object.
        numbers: object numbers of paths. Paths with equal numbers hold the same object. Nothing is known of paths
            without one.
        trace: records what is read and written, if not None. Copies made meanwhile share it.
    """

    __slots__ = ("_finder", "names", "numbers", "objects", "trace")

    def __init__(
        self,
        names: Mapping[str, Value] = _NO_NAMES,
        objects: Mapping[Path, Value] = _NO_PATHS,
        numbers: Mapping[Path, Number] = _NO_NUMBERS,
    ) -> None:
        self.names = _persistent(names)
        self.objects = _persistent(objects)
        self.numbers = _persistent(numbers)
        self.trace: Trace | None = None
        self._finder = _Finder()
        for path in self.objects:
            self._finder.note(path)

    def copy(self) -> Environment:
        """An independent copy."""
        return self.elsewhere(self.names, self.objects, self.numbers)

    def elsewhere(
        self,
        names: PersistentMap[str, Value],
        objects: PersistentMap[Path, Value],
        numbers: PersistentMap[Path, Number],
    ) -> Environment:
        """An environment of the same visit with other contents."""
        found = Environment.__new__(Environment)
        found.names, found.objects, found.numbers = names, objects, numbers
        found.trace, found._finder = self.trace, self._finder  # noqa: SLF001
        return found

    def numbered_as(self, other: Environment) -> Environment:
        """A copy with the object numbers of another environment."""
        found = self.elsewhere(self.names, self.objects, other.numbers)
        found.trace = None
        return found

    def get(self, path: Path) -> Value | None:
        """The value of `path`; None if this function has not set it."""
        held = self.held(path[0])
        if len(path) > 1:
            held = self.objects.get(path)
        return held

    def held(self, name: str) -> Value | None:
        """The value of a name; None if this function has not set it."""
        if self.trace is not None:
            self.trace.read.add(name)
        found: Value | None = self.names.get(name)
        return found

    def number(self, path: Path) -> Number:
        """The object number of a path; None if unknown."""
        if self.trace is not None:
            self.trace.read.add(path[0])
        return self.numbers.get(path)

    def paths(self) -> list[Path]:
        """All paths that have a value."""
        self._note_whole()
        return [*((name,) for name in self.names), *self.objects]

    def holding(self, atom: Atom) -> list[Path]:
        """The paths that may hold an object, or something that stands for it."""
        self._note_whole()
        finder = self._finder
        return [*((name,) for name in finder.named.find(self.names, atom)), *finder.inside.find(self.objects, atom)]

    def numbered(self, number: Number) -> list[Path]:
        """The paths with an object number."""
        self._note_whole()
        return list(self._finder.numbers.find(self.numbers, number))

    def has_number(self, number: Number) -> bool:
        """Whether any path has an object number."""
        return bool(self._finder.numbers.find(self.numbers, number))

    def assign(self, path: Path, value: Value, number: Number = None) -> None:
        """Set `path` to `value` (a strong update). Paths below it are forgotten."""
        self._forget_below(path)
        if len(path) == 1:
            self._forget_number(path)
            self.rebind(path[0], value)
        else:
            # Another path may alias the object, so its attribute of that name may have changed too.
            self.may_store(path[-1], value)
            self._set_object(path, value)
        if number is not None:
            self.renumber(path, number)

    def begin(self, path: Path, value: Value, number: Number) -> None:
        """Set the attribute of a new instance, which has no alias yet, to `value`."""
        self._note_stored(path)
        self._set_object(path, value)
        self.renumber(path, number)

    def rebind(self, name: str, value: Value) -> None:
        """Set a name to `value`. Paths below it stay."""
        self._note_stored((name,))
        if self.names.get(name) is not value:  # otherwise the table stays shared with copies
            self.names = self.names.set(name, value)

    def may_hold(self, name: str, value: Value) -> None:
        """Add `value` to what a name may hold (a weak update). Paths below it are forgotten."""
        self._forget_below((name,))
        self.rebind(name, join((self.held(name) or NOTHING, value)))
        self._forget_number((name,))

    def may_store(self, step: str, value: Value) -> None:
        """Add `value` to all paths that end in `step` (a weak update); `[*]` stands for every element."""
        self._note_wide()
        for path in self._paths_through((step,)):
            if path[-1] == step or (step == ANY_ELEMENT and path[-1][0] == "["):
                self._set_object(path, join((self.objects[path], value)))
                self._forget_number(path)

    def number_at(self, path: Path, default: Number) -> Number:
        """The object number of a path. If it has none, it gets `default`."""
        if self.number(path) is None:
            self.renumber(path, default)
        return self.numbers[path]

    def renumber(self, path: Path, number: Number) -> None:
        """Give a path an object number: it holds the same object as all others with that number."""
        self._note_stored(path)
        if self.numbers.get(path) is not number:
            self.numbers = self.numbers.set(path, number)

    def forget(self, path: Path) -> None:
        """Forget `path` and all paths below it."""
        self._note_stored(path)
        if len(path) == 1:
            if path[0] in self.names:
                self.names = self.names.without(path[0])
            self._forget_number(path)
        self._forget_below(path)

    def steps_met(self) -> Mapping[str, None]:
        """The attributes and elements in the paths of the visit so far, with one step for all elements.

        In the order in which they occurred.
        """
        return self._finder.met

    def leads_through(self, steps: AbstractSet[str]) -> bool:
        """Whether some path contains one of the attributes or elements in `steps`."""
        return any(not steps.isdisjoint(_kinds(path)) for path in self._paths_through(steps))

    def forget_elements(self) -> None:
        """Forget the elements of containers, as they may have moved."""
        self.forget_steps({ANY_ELEMENT})

    def forget_steps(self, steps: AbstractSet[str]) -> None:
        """Forget all paths through some attributes or elements, as unseen code may have changed them."""
        if steps:
            self._note_wide()
            paths = self._paths_through(steps)
            self._forget_objects([path for path in paths if not steps.isdisjoint(_kinds(path))])

    def forget_objects(self) -> None:
        """Forget all attributes and elements, as unseen code may have changed them."""
        self._note_wide()
        self._forget_objects(list(self.objects))

    def _forget_below(self, path: Path) -> None:
        if self.objects:
            length = len(path)
            below = [other for other in self._paths_through((path[-1],)) if other[:length] == path]
            self._forget_objects(below)

    def _forget_objects(self, paths: Iterable[Path]) -> None:
        for path in paths:
            self.objects = self.objects.without(path)
            self._forget_number(path)

    def _paths_through(self, steps: Collection[str]) -> Collection[Path]:
        """A superset of the paths through objects that contain one of some steps."""
        if len(self.objects) <= _FEW:
            return list(self.objects)
        find, version = self._finder.steps.find, self.objects
        return {path for step in steps for path in find(version, step)}

    def _set_object(self, path: Path, value: Value) -> None:
        self._finder.note(path)
        if self.objects.get(path) is not value:
            self.objects = self.objects.set(path, value)

    def _note_stored(self, path: Path) -> None:
        if self.trace is not None:
            self.trace.stored.add(path[0])
            if len(path) > 1:
                self.trace.read.add(path[0])
                self.trace.steps.update(_kinds(path))

    def _note_wide(self) -> None:
        if self.trace is not None:
            self.trace.is_wide = True

    def _note_whole(self) -> None:
        if self.trace is not None:
            self.trace.is_whole = True

    def _forget_number(self, path: Path) -> None:
        if path in self.numbers:
            self.numbers = self.numbers.without(path)

    # ---- replay ----

    def snapshot(self) -> Snapshot:
        """The current contents, which outlive the visit."""
        return Snapshot(self.names, self.objects, self.numbers)

    def shares(self, other: Snapshot) -> bool:
        """Whether the contents are the identical tables of a snapshot."""
        return self.names is other.names and self.objects is other.objects and self.numbers is other.numbers

    def has_names_of(self, other: Snapshot, names: Collection[str]) -> bool:
        """Whether some names have the values and numbers of a snapshot."""
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

    def has_objects_of(self, other: Snapshot, names: Collection[str] | None) -> bool:
        """Whether the paths below some names, or below any for None, have the values and numbers of a snapshot."""
        if self.objects is other.objects and self.numbers is other.numbers:
            return True
        differing = (*self.objects.differences(other.objects), *self.numbers.differences(other.numbers))
        return not any(len(path) > 1 and (names is None or path[0] in names) for path in differing)

    def store(
        self,
        names: Iterable[tuple[str, Value | None]],
        objects: Iterable[tuple[Path, Value | None]],
        numbers: Iterable[tuple[Path, Number]],
    ) -> None:
        """Set names, paths and numbers to recorded values; None means to forget them."""
        for name, value in names:
            if value is not None:
                self.names = self.names.set(name, value)
            elif name in self.names:
                self.names = self.names.without(name)
        for path, value in objects:
            if value is not None:
                self._set_object(path, value)
            elif path in self.objects:
                self.objects = self.objects.without(path)
        for path, number in numbers:
            if number is not None:
                self.numbers = self.numbers.set(path, number)
            else:
                self._forget_number(path)

    def become(self, other: Snapshot, paths: Iterable[Path]) -> None:
        """Take over a snapshot of an earlier visit, which differs from the current contents in names and in `paths`."""
        self.names, self.objects, self.numbers = other
        for path in paths:
            self._finder.note(path)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Environment) and self.snapshot() == other.snapshot()

    __hash__ = None  # type: ignore[assignment]


def join_environments(environments: Iterable[Environment | None], place: Hashable = None) -> Environment | None:
    """The join of the environments of several branches; None stands for a branch that does not reach the join.

    Args:
        environments: the branches. Faster if adjacent ones differ little.
        place: identifies the join. Paths that hold one object on each branch then hold one object after it. Without a
            place, paths whose objects differ between branches get no number.
    """
    ways = [each for each in environments if each is not None]
    if len(ways) < 2:
        return ways[0].copy() if ways else None
    # Using a name that one branch has not bound would be an error. An attribute may still hold its earlier value.
    joined = ways[0].elsewhere(
        _join_tables([way.names for way in ways], keep_missing=True),
        _join_tables([way.objects for way in ways], keep_missing=False),
        _join_numbers([way.numbers for way in ways], place),
    )
    trace = joined.trace
    if trace is not None:
        trace.read |= trace.stored  # one branch may leave them unchanged, so the join reads them
    return joined


def _join_tables(tables: Sequence[PersistentMap[K, Value]], *, keep_missing: bool) -> PersistentMap[K, Value]:
    """The join of several tables. Only keys at which adjacent tables differ are visited."""
    joined = before = tables[0]
    for table in tables[1:]:
        for key in table.differences(before):
            value, old = table.get(key), joined.get(key)
            if value is None:
                if old is not None and not keep_missing:
                    joined = joined.without(key)
            elif old is None:
                if keep_missing:
                    joined = joined.set(key, value)
            elif old is not value:
                joined = joined.set(key, join((old, value)))
        before = table
    return joined


def _join_numbers(tables: Sequence[PersistentMap[Path, Number]], place: Hashable) -> PersistentMap[Path, Number]:
    """The object numbers after a join."""
    joined = before = tables[0]
    # For each path, its numbers on the branches where it differs from the branch before.
    incoming: dict[Path, list[tuple[int, Number]]] = {}
    for position, table in enumerate(tables):
        for path in table.differences(before):
            if path in joined:
                incoming.setdefault(path, [(0, joined[path])]).append((position, table.get(path)))
        before = table
    groups: dict[tuple[tuple[int, Number], ...], Path] = {}
    for path in sorted(incoming):
        if place is None or any(number is None for _, number in incoming[path]):
            joined = joined.without(path)
        else:
            # Named by the first path of each group: a number composed of numbers would grow at every join.
            joined = joined.set(path, (place, groups.setdefault(tuple(incoming[path]), path)))
    return joined


def leave_loop(environment: Environment | None, entry: Environment, place: Hashable) -> Environment | None:
    """Renumber the paths after a loop: they hold objects of the last iteration, not those of earlier ones."""
    if environment is None:
        return None
    groups: dict[Number, Path] = {}
    for path in sorted(environment.numbers.differences(entry.numbers)):
        number = environment.numbers.get(path)
        if number is not None and not entry.has_number(number):
            environment.renumber(path, (place, groups.setdefault(number, path)))
    return environment


def path_of(expression: ast.AST) -> Path | None:
    """The access path that an expression denotes; None if it is no path or has an index that is not constant."""
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
    """The steps of a path as stores may change them: attributes by name, all elements as one."""
    kinds = {ANY_ELEMENT if step[0] == "[" else step for step in path[1:]}
    return kinds if kinds <= {ANY_ELEMENT} else {*kinds, ANY_ATTRIBUTE}


def constant_key(index: ast.expr) -> str | None:
    """The key of a constant index in a container; None for other indexes.

    Equal keys get the same text (`d[1]` and `d[True]`). A negative index gives None, as its element may move.
    """
    if not isinstance(index, ast.Constant):
        return None
    held = index.value
    return repr(int(held)) if isinstance(held, (bool, float)) and held == held // 1 else repr(held)


def _persistent(held: Mapping[K, V]) -> PersistentMap[K, V]:
    return held if isinstance(held, PersistentMap) else PersistentMap(held)
