"""What a statement did when it was visited before, done again without looking at it again.

Scopes are visited several times, each time because a little of what they read has changed: most of their statements
would find what they found. A statement depends on the tables that the facts keep, which tell whom they change for, and
on what names and paths hold before it, of which its environment notes what it asks for. Where neither has changed, its
record says what it leaves behind. What it added to tables that only grow is there already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instrumentor.analysis.environment import Trace
from instrumentor.analysis.tables import Reader

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from instrumentor.analysis.environment import Environment, Number, Path, Snapshot
    from instrumentor.analysis.scope import Scope
    from instrumentor.analysis.values import Value

# How many ways to come to one statement are kept: the rounds of the loops around it.
_MAX_RECORDS = 4


class Record(Reader):
    """One visit of one statement.

    There are as many as statements: what a record keeps is laid out to take little room.
    """

    __slots__ = (
        "_after", "_before", "_globals", "_is_whole", "_is_wide", "_numbers", "_objects", "_outside", "_outside_asked",
        "_read", "_stored", "_told",
    )  # fmt: skip

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope.key)
        self._told: list[tuple[Any, ...]] = []
        self._globals, self._outside = scope.globals, scope.outside
        self._before = scope.env.snapshot()
        self._after: Snapshot | None = None
        self._read: tuple[str, ...] = ()
        self._outside_asked: tuple[str, ...] = ()
        self._is_wide = self._is_whole = False
        self._stored: tuple[tuple[str, Value | None], ...] = ()
        self._objects: tuple[tuple[Path, Value | None], ...] = ()
        self._numbers: tuple[tuple[Path, Number], ...] = ()

    def tell_again(self, tell: Callable[..., None], *told: object) -> None:
        """Have something told that counts for one visit only, or replaces what was told before."""
        self._told.append((tell, *told))

    def forgo(self) -> None:
        """Have the statement looked at again."""
        self.is_stale = True

    def finish(self, trace: Trace, after: Environment) -> None:
        """Keep what the statement asked its environment for, and what it left behind."""
        before = self._before
        self._after = after.snapshot()
        self._read, self._outside_asked = (*trace.read,), (*trace.outside,)
        self._is_wide, self._is_whole = trace.is_wide, trace.is_whole
        self._stored = tuple([(name, after.names.get(name)) for name in trace.stored])
        objects = before.objects.differences(after.objects)
        self._objects = tuple([(path, after.objects.get(path)) for path in objects])
        paths = dict.fromkeys([*((name,) for name in trace.stored), *before.numbers.differences(after.numbers)])
        self._numbers = tuple([(path, after.numbers.get(path)) for path in paths])

    def replay(self, scope: Scope) -> bool:
        """Do what the statement did; False where it may do something else now."""
        env, before, after = scope.env, self._before, self._after
        if self.is_stale or after is None or not self._finds_outside(scope):
            return False
        if env.shares(before) or (self._is_whole and env.snapshot() == before):
            env.become(after, [path for path, _ in self._objects])
        elif not self._is_whole and self._finds_the_same(env):
            env.store(self._stored, self._objects, self._numbers)
        else:
            return False
        for tell, *told in self._told:
            tell(scope.facts, *told)
        return True

    def _finds_outside(self, scope: Scope) -> bool:
        """Whether the names of the scopes around that are in sight meanwhile make no difference."""
        if scope.globals is not self._globals and scope.globals != self._globals:
            return False
        if scope.outside is self._outside or scope.outside == self._outside:
            return True
        stored = scope.facts.stored_outside
        return self._outside.items() <= scope.outside.items() and not any(
            name in self._outside_asked or stored.get((owner, name))
            for name, owner in scope.outside.items()
            if name not in self._outside
        )

    def _finds_the_same(self, env: Environment) -> bool:
        names = None if self._is_wide else {*self._read, *(name for name, _ in self._stored)}
        return env.has_names_of(self._before, self._read) and env.has_objects_of(self._before, names)


class Records:
    """The records of all statements."""

    def __init__(self) -> None:
        self._kept: dict[ast.AST, tuple[Record, ...]] = {}

    def visit(self, node: ast.AST, scope: Scope, work: Callable[[], object]) -> None:
        """Do what a statement did, or else the work of visiting it, and keep a record of that."""
        kept = self._kept.get(node, ())
        for record in reversed(kept):
            if record.replay(scope):
                return
        record = Record(scope)
        scope.env.trace = trace = Trace()
        scope.facts.visits.read_by(record, work)
        scope.env.trace = None
        if not record.is_stale:
            record.finish(trace, scope.env)
            fresh = [each for each in kept if not each.is_stale]
            self._kept[node] = (*fresh[-_MAX_RECORDS + 1 :], record)
