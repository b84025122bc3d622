"""The analysis of a whole script: its scopes are visited until a fixpoint."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.entries import scope_key
from instrumentor.analysis.facts import Facts
from instrumentor.analysis.passed_around import PassedAround
from instrumentor.analysis.replay import Records
from instrumentor.analysis.statements import Pass
from instrumentor.analysis.unseen_methods import is_called_unseen
from instrumentor.resolve.classes import Hierarchy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from instrumentor.resolve.project import Project
    from instrumentor.resolve.unit import Function, Unit


# How many nested calls may visit their callee at once, when they first reach it. Each takes about forty of the frames
# that Python allows.
_MAX_DEPTH = 8


def analyse(project: Project, units: Sequence[Unit] = ()) -> tuple[Facts, Hierarchy]:
    """Find the objects that a script makes and the names that may hold them.

    The tables grow monotonically towards a finite bound, so the rounds terminate, usually after three. A scope is
    skipped if nothing that it read has changed, as its visit would find the same.

    Args:
        project: the script and the files that it leads to.
        units: further files that run with the script, besides those that its names lead to.
    """
    analysis = _Analysis(project, units)
    is_forward = True
    # Visiting callers first carries arguments down the call graph; visiting callees first carries results up.
    while analysis.visit_due(is_forward=is_forward):
        is_forward = not is_forward
    return analysis.facts, analysis.hierarchy


class _Analysis:
    """The visits of a script's scopes and of those that they reach."""

    def __init__(self, project: Project, units: Sequence[Unit]) -> None:
        self.facts = Facts()
        self.hierarchy = Hierarchy(project)
        self._script = project.script
        self._records = Records()
        self._passed_around = PassedAround(self.hierarchy, project.script)
        self._begun: set[str] = set()
        self._depth = 0
        self._units = 0
        self.facts.demanded_units.update((unit.name, unit) for unit in units)
        self.facts.whole_units.update(self.facts.demanded_units)
        # First, because the number of a project's files is bounded, and these are the most informative.
        for cls in self._script.class_of.values():
            self.hierarchy.is_module(cls)
        for function in self._script.function_of.values():
            if function.owner is not None:
                self.facts.methods_by_name.setdefault(function.name, []).append(function)
        self.facts.demanded_functions.update((each.key, each) for each in self._script.function_of.values())

    def visit_due(self, *, is_forward: bool) -> bool:
        """Visit all scopes that are due; whether there were any."""
        is_settled = True
        for unit, function in self._scopes() if is_forward else reversed(list(self._scopes())):
            if self.facts.visits.is_due(scope_key(unit, function)):
                is_settled = False
                self._visit(unit, function)
        return not is_settled

    def _begin(self, unit: Unit, function: Function | None) -> None:
        """Visit a scope that was never visited, so that its results are available to the scope that reached it."""
        if self._depth < _MAX_DEPTH and scope_key(unit, function) not in self._begun:
            self._visit(unit, function)

    def _visit(self, unit: Unit, function: Function | None) -> None:
        scope = scope_key(unit, function)
        self._begun.add(scope)
        if function is not None and (is_called_unseen(self.hierarchy, function) or function in self._passed_around):
            self.facts.note_unseen_calls(function.key)
        elif function is not None and isinstance(function.node, ast.AsyncFunctionDef):
            self.facts.touched.note_running_unseen(function.key)
        self._depth += 1
        with self.facts.visiting(scope):
            Pass(self.facts, self.hierarchy, unit, function, self._records, self._begin).run()
        self._depth -= 1
        self._note_descendants()

    def _scopes(self) -> Iterator[tuple[Unit, Function | None]]:
        """The scopes to consider: the top levels of files, then functions, in the order in which they were demanded."""
        yield self._script, None
        for unit in list(self.facts.demanded_units.values()):
            if unit is not self._script:
                yield unit, None
        for function in list(self.facts.demanded_functions.values()):
            yield function.unit, function

    def _note_descendants(self) -> None:
        """Record which classes have more subclasses since further files were read."""
        units = len(self.hierarchy.project.units)
        if units == self._units:
            return
        self._units = units
        for cls, known in list(self.facts.descendants.items()):
            found = self.hierarchy.descendants(cls)
            if found is not known and found != known:
                self.facts.descendants[cls] = found
