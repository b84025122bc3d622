"""What each access path holds at one point of a function."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeVar

from instrumentor.analysis.values import join

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from typing import TypeGuard

    from instrumentor.analysis.values import Value

_K = TypeVar("_K")
# `model` is ("model",), `self.net` is ("self", ".net"), `nets["g"]` is ("nets", "['g']").
Path = tuple[str, ...]
# Equal for paths that hold the very same object; None where that is not known.
Number = object
PARAMETER = "parameter"


def is_parameter(number: Number) -> TypeGuard[tuple[str, str]]:
    """Whether a number is that of what a parameter is given, whose name is its second part."""
    return isinstance(number, tuple) and number[0] == PARAMETER


class Environment:
    """What names and the paths through objects hold; copied at branches.

    Attributes:
        names: what each name holds.
        objects: what each path through an object holds.
        numbers: which paths hold the very same object: those with one number. Paths without one are not known.
    """

    def __init__(
        self,
        names: dict[str, Value] | None = None,
        objects: dict[Path, Value] | None = None,
        numbers: dict[Path, Number] | None = None,
    ) -> None:
        self.names = {} if names is None else names
        self.objects = {} if objects is None else objects
        self.numbers = {} if numbers is None else numbers

    def copy(self) -> Environment:
        """An independent copy."""
        return Environment(dict(self.names), dict(self.objects), dict(self.numbers))

    def get(self, path: Path) -> Value | None:
        """What `path` holds; None where this function has not said."""
        return self.names.get(path[0]) if len(path) == 1 else self.objects.get(path)

    def paths(self) -> list[Path]:
        """All paths that hold something."""
        return [*((name,) for name in self.names), *self.objects]

    def values(self) -> list[Value]:
        """What all paths hold."""
        return [*self.names.values(), *self.objects.values()]

    def assign(self, path: Path, value: Value, number: Number = None) -> None:
        """Let `path` hold `value` and nothing else; what was under the old object is forgotten."""
        self.forget(path)
        if len(path) == 1:
            self.names[path[0]] = value
        else:
            # Another path may lead to the same object: its attribute of that name may have changed with it.
            self.may_store(path[-1], value)
            self.objects[path] = value
        if number is not None:
            self.numbers[path] = number

    def may_store(self, step: str, value: Value) -> None:
        """Let all paths that end in `step` hold `value` too; `[*]` stands for every element."""
        for path in self.objects:
            if path[-1] == step or (path[-1][0] == "[" and step == "[*]"):
                self.objects[path] = join((self.objects[path], value))
                self.numbers.pop(path, None)

    def forget(self, path: Path) -> None:
        """Forget `path` and all that lies under it."""
        if len(path) == 1:
            self.names.pop(path[0], None)
            self.numbers.pop(path, None)
        self._forget_where(lambda other: other[: len(path)] == path)

    def forget_elements(self) -> None:
        """Forget what containers hold: their elements may have moved."""
        self._forget_where(lambda path: any(step[0] == "[" for step in path[1:]))

    def forget_objects(self) -> None:
        """Forget all attributes and elements: code that cannot be seen here may have changed them."""
        self._forget_where(lambda _: True)

    def _forget_where(self, is_stale: Callable[[Path], bool]) -> None:
        for path in [each for each in self.objects if is_stale(each)]:
            del self.objects[path]
            self.numbers.pop(path, None)

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
    ways = [each for each in environments if each is not None]
    if len(ways) < 2:
        return ways[0].copy() if ways else None
    # A name that one way has not bound would be an error to use there; an attribute may hold what it held before.
    joined = ways[0].copy()
    for way in ways[1:]:
        _join_into(joined.names, way.names, keep_missing=True)
        _join_into(joined.objects, way.objects, keep_missing=False)
    groups: dict[tuple[Number, ...], Path] = {}
    numbers = joined.numbers
    rest = [way.numbers for way in ways[1:]]
    differing: list[Path] = []
    for path, number in ways[0].numbers.items():
        if any(path not in other for other in rest):
            del numbers[path]
        elif any(other[path] != number for other in rest):
            differing.append(path)
    for path in sorted(differing):
        if place is None:
            del numbers[path]
        else:
            # Named by the paths that keep together, as a number made of numbers would grow with every join.
            incoming = (ways[0].numbers[path], *(other[path] for other in rest))
            numbers[path] = (place, groups.setdefault(incoming, path))
    return joined


def _join_into(held: dict[_K, Value], other: dict[_K, Value], *, keep_missing: bool) -> None:
    """Join another way's values into those held; most are the very same, as ways differ in a few names."""
    for key, value in other.items():
        old = held.get(key)
        if old is None:
            if keep_missing:
                held[key] = value
        elif old is not value:
            held[key] = join((old, value))
    if not keep_missing:
        for key in [key for key in held if key not in other]:
            del held[key]


def leave_loop(environment: Environment | None, entry: Environment, place: Hashable) -> Environment | None:
    """What holds behind a loop: the objects of its last round, which are not those of the rounds before."""
    if environment is None:
        return None
    before = set(entry.numbers.values())
    groups: dict[Number, Path] = {}
    for path, number in sorted(environment.numbers.items()):
        if number not in before:
            environment.numbers[path] = (place, groups.setdefault(number, path))
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


def constant_key(index: ast.expr) -> str | None:
    """A constant index as containers are keyed by it; None for others.

    Keys that are equal get one text (`d[1]` and `d[True]`). An index from the end is none: it moves.
    """
    if not isinstance(index, ast.Constant):
        return None
    held = index.value
    return repr(int(held)) if isinstance(held, (bool, float)) and held == held // 1 else repr(held)
