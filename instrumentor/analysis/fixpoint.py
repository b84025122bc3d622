"""The analysis of a whole script: its scopes again and again until nothing new is found."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.bystanders import Bystanders
from instrumentor.analysis.entries import scope_key
from instrumentor.analysis.facts import Facts
from instrumentor.analysis.passed_around import PassedAround
from instrumentor.analysis.replay import Records
from instrumentor.analysis.statements import Pass
from instrumentor.analysis.unseen_methods import is_called_unseen
from instrumentor.resolve.classes import Hierarchy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from instrumentor.resolve.units import Function, Project, Unit


# How many calls deep a scope is visited at once when a call comes to it first; each takes some forty of the frames that
# Python has room for.
_MAX_DEPTH = 8


def analyse(project: Project, units: Sequence[Unit] = ()) -> tuple[Facts, Hierarchy]:
    """Find out which objects a script makes and which of its names may hold them.

    The tables only grow, and towards a finite bound: the rounds end by themselves, mostly after three. A scope that
    read nothing that has changed since would find what it found before, so it is passed over.

    Args:
        project: the script, with what it leads to.
        units: further files that are run when the script is, besides those that its names lead to.
    """
    analysis = _Analysis(project, units)
    is_forward = True
    # Callers before callees carries arguments down, the other way round carries what is returned up.
    while analysis.visit_due(is_forward=is_forward):
        is_forward = not is_forward
    return analysis.facts, analysis.hierarchy


class _Analysis:
    """The visits of a script's scopes, and of those that they lead to."""

    def __init__(self, project: Project, units: Sequence[Unit]) -> None:
        self.facts = Facts()
        self.hierarchy = Hierarchy(project)
        self._script = project.script
        self._bystanders = Bystanders(self.facts, self.hierarchy)
        self._records = Records()
        self._passed_around = PassedAround(self.hierarchy, project.script)
        self._begun: set[str] = set()
        self._depth = 0
        self._units = 0
        self.facts.demanded_units.update((unit.name, unit) for unit in units)
        self.facts.whole_units.update(self.facts.demanded_units)
        # First: the files that a project may have are bounded, and these say the most.
        for cls in self._script.class_of.values():
            self.hierarchy.is_module(cls)
        for function in self._script.function_of.values():
            if function.owner is not None:
                self.facts.methods_by_name.setdefault(function.name, []).append(function)
        self.facts.demanded_functions.update((each.key, each) for each in self._script.function_of.values())

    def visit_due(self, *, is_forward: bool) -> bool:
        """Visit all scopes that may find anything new; whether there were any."""
        is_settled = True
        for unit, function in self._scopes() if is_forward else reversed(list(self._scopes())):
            if self.facts.visits.is_due(scope_key(unit, function)):
                is_settled = False
                self._visit(unit, function)
        due = self._demand_telling()
        if is_settled:
            self._note_bystanders(due)
        return bool(due) or not is_settled

    def _demand_telling(self) -> list[Function]:
        """Demand the functions that unseen code may call and that have to be visited; gives all that were looked at."""
        known = [each for each in self.facts.unseen_functions.values() if each.key not in self.facts.demanded_functions]
        due = [each for each in known if self.facts.visits.is_due(_unseen(each))]
        for function in due:
            if not self._bystanders.has(function):
                self.facts.demand(function)
        self._note_descendants()
        return due

    def _note_bystanders(self, functions: list[Function]) -> None:
        """Note what bystanders do, now that all else is settled, if there are no other functions among those given."""
        if any(each.key in self.facts.demanded_functions for each in functions):
            return
        for function in functions:
            with self.facts.visits.of(_unseen(function)):
                if self._bystanders.has(function):
                    self._bystanders.note(function)
                else:
                    self.facts.demand(function)

    def _begin(self, unit: Unit, function: Function | None) -> None:
        """Visit a scope that was never visited: who comes to it then knows what it gives before going on."""
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
        """The scopes to look at: the tops of files, then the functions, those called first before the others."""
        yield self._script, None
        for unit in list(self.facts.demanded_units.values()):
            if unit is not self._script:
                yield unit, None
        for function in list(self.facts.demanded_functions.values()):
            yield function.unit, function

    def _note_descendants(self) -> None:
        """Note which classes have more below them since further files were read."""
        units = len(self.hierarchy.project.units)
        if units == self._units:
            return
        self._units = units
        for cls, known in list(self.facts.descendants.items()):
            found = self.hierarchy.descendants(cls)
            if found is not known and found != known:
                self.facts.descendants[cls] = found


def _unseen(function: Function) -> str:
    """What a look at a function is called that takes the place of a visit."""
    return f"{function.key} unseen"
