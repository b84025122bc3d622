"""Replay of statements: repeats the effect of an earlier visit without another visit.

A scope is visited several times, each time because a little of what it read has changed, so most statements would find
the same again. A statement depends on entries of the facts, whose tables notify it of changes, and on the names and
paths that it read from its environment, which a trace records. If neither has changed, its record gives the environment
after it. What it added to monotonic tables is there already.
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

# The number of records kept for one statement: it is visited in each round of the loops around it.
_MAX_RECORDS = 4


class Record(Reader):
    """One visit of one statement.

    There are very many, so their layout saves memory.
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
        """Register a call to repeat on replay: one that counts for one visit only, or replaces an earlier one."""
        self._told.append((tell, *told))

    def forgo(self) -> None:
        """Prevent replay, so that the statement is visited again."""
        self.is_stale = True

    def finish(self, trace: Trace, after: Environment) -> None:
        """Store what the statement read from its environment, and how it changed it."""
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
        """Repeat the effect of the statement; False if the effect may differ now."""
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
        """Whether changes in the set of visible enclosing names make no difference."""
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
        """Replay a statement if a record applies; otherwise do `work` and record it."""
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
