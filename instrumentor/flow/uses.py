"""Which values are used as modules are, by whatever way they get to where they are used."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from instrumentor.flow.kinds import Edge, May

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from instrumentor.code.facts import Call
    from instrumentor.flow.solver import Solver

_WAYS = (Edge.COPY, Edge.BOX, Edge.UNBOX, Edge.PASS, Edge.STORE, Edge.SHARE, Edge.IMPORT)
_WITHIN = (Edge.COPY, Edge.BOX, Edge.UNBOX, Edge.SHARE)
_MODULES = May.MADE | May.HOLDING


class Uses:
    """Follows uses back to where what is used comes from.

    Attributes:
        used: the values that something uses as modules are, or of whose results a backward pass starts.
        called: the values made inside classes of modules that are called there, or used as modules are.
    """

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        self._count = len(solver.edges)
        self._before: list[list[tuple[int, int]] | None] = [None] * self._count
        for source, known in enumerate(solver.edges):
            for target, kind in known or ():
                held = self._before[target]
                if held is None:
                    self._before[target] = [(source, kind)]
                else:
                    held.append((source, kind))
        self._fields_read = solver.fields_read()
        self._fields_used: dict[int, int] = {}
        program = solver.program
        used: list[int] = list(solver.uses)
        trained: list[int] = []
        called: list[int] = []
        self._calls: dict[int, Call] = {}
        for file, facts in enumerate(program.facts):
            if facts is None:
                continue
            first = solver.first_value[file]
            used += [first + each for each in facts.used]
            trained += [first + each for each in facts.trained]
            for call in facts.calls:
                if call.callee:
                    called.append(first + call.callee)
                self._calls[first + call.out] = call
        self.used = self._follow(used, is_training=False)
        for value in self._follow(trained, is_training=True):
            self.used.add(value)
        self.called = self._follow_within([*called, *used])

    def _follow(self, starts: Iterable[int], *, is_training: bool) -> set[int]:
        solver = self._solver
        found = set(starts)
        pending = list(found)

        def reach(value: int) -> None:
            if value not in found:
                found.add(value)
                pending.append(value)

        while pending:
            value = pending.pop()
            for source, kind in self._before[value] or ():
                if kind in _WAYS:
                    reach(source)
                elif kind == Edge.RETURN:
                    if solver.leads(self._file_of(source), self._file_of(value)):
                        reach(source)
                elif is_training:
                    reach(source)
            for field in self._fields_read.get(value, ()):
                self._reach_stores(field, self._file_of(value), reach)
            if is_training and value in self._calls:
                call = self._calls[value]
                first = value - call.out
                for each in call.given:
                    reach(first + each)
        self._fields_used.clear()
        return found

    def _reach_stores(self, field: int, file: int, reach: Callable[[int], None]) -> None:
        """Follow a use of an attribute to what files that lead there store in it."""
        bit = 1 << file
        if self._fields_used.get(field, 0) & bit:
            return
        self._fields_used[field] = self._fields_used.get(field, 0) | bit
        for at, value in self._solver.stores_in(field):
            if self._solver.leads(at, file):
                reach(value)

    def _follow_within(self, starts: Iterable[int]) -> set[int]:
        """Follow modules, and containers of some, as long as they stay in a file and have names there."""
        may = self._solver.may
        found = {each for each in starts if may[each] & _MODULES}
        pending = list(found)
        while pending:
            for source, kind in self._before[pending.pop()] or ():
                if kind in _WITHIN and may[source] & _MODULES and source not in found:
                    found.add(source)
                    pending.append(source)
        return found

    def _file_of(self, value: int) -> int:
        return bisect_right(self._solver.first_value, value) - 1
