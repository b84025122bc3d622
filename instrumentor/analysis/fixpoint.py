"""The analysis of a whole script: its scopes again and again until nothing new is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.facts import Facts, scope_key
from instrumentor.analysis.statements import Pass
from instrumentor.resolve.classes import Hierarchy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from instrumentor.resolve.units import Function, Project, Unit


def analyse(project: Project, units: Sequence[Unit] = ()) -> tuple[Facts, Hierarchy]:
    """Find out which objects a script makes and which of its names may hold them.

    The tables only grow, and towards a finite bound: the rounds end by themselves, mostly after three. A scope that
    read nothing that has changed since would find what it found before, so it is passed over.

    Args:
        project: the script, with what it leads to.
        units: further files that are run when the script is, besides those that its names lead to.
    """
    facts = Facts()
    facts.demanded_units.update((unit.name, unit) for unit in units)
    facts.whole_units.update(facts.demanded_units)
    hierarchy = Hierarchy(project)
    script = project.script
    for cls in script.class_of.values():
        hierarchy.is_module(cls)  # first: the files that a project may have are bounded, and these say the most
    facts.demanded_functions.update((each.key, each) for each in script.function_of.values())
    is_forward, is_settled = True, False
    while not is_settled:
        is_settled = True
        # Callers before callees carries arguments down, the other way round carries what is returned up.
        for unit, function in _scopes(facts, script) if is_forward else reversed(list(_scopes(facts, script))):
            scope = scope_key(unit, function)
            if facts.visits.is_due(scope):
                is_settled = False
                if function is not None and _is_overriding(hierarchy, function):
                    facts.note_unseen_calls(function.key)
                with facts.visiting(scope):
                    Pass(facts, hierarchy, unit, function).run()
                _note_descendants(facts, hierarchy)
        is_forward = not is_forward
    return facts, hierarchy


def _scopes(facts: Facts, script: Unit) -> Iterator[tuple[Unit, Function | None]]:
    """The scopes to look at: the tops of files, then the functions, those called first before those called later."""
    yield script, None
    for unit in list(facts.demanded_units.values()):
        if unit is not script:
            yield unit, None
    for function in list(facts.demanded_functions.values()):
        yield function.unit, function


def _note_descendants(facts: Facts, hierarchy: Hierarchy) -> None:
    """Note which classes have more below them since further files were read."""
    for cls, known in list(facts.descendants.items()):
        found = hierarchy.descendants(cls)
        if found is not known and found != known:
            facts.descendants[cls] = found


def _is_overriding(hierarchy: Hierarchy, function: Function) -> bool:
    """Whether a base class outside the project may call a method."""
    if function.owner is None or function.name == "__init__":
        return False
    return any(base is None or not base.startswith("builtins.") for base in hierarchy.library_bases(function.owner))
