"""The analysis of a whole script: every scope again and again until nothing new is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.facts import Facts
from instrumentor.analysis.statements import Pass
from instrumentor.resolve.classes import Hierarchy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from instrumentor.resolve.units import Function, Project, Unit


def analyse(project: Project, units: Sequence[Unit] = ()) -> tuple[Facts, Hierarchy]:
    """Find out which objects a script makes and which of its names may hold them.

    The tables only grow, and towards a finite bound: the rounds end by themselves, mostly after three.

    Args:
        project: the script, with what it leads to.
        units: further files that are run when the script is, besides those that its names lead to.
    """
    facts = Facts()
    facts.demanded_units.update((unit.name, unit) for unit in units)
    hierarchy = Hierarchy(project)
    script = project.script
    for function in script.function_of.values():
        facts.demanded_functions[function.key] = function
    version = -1
    while facts.version != version:
        version = facts.version
        facts.dropped.clear()
        Pass(facts, hierarchy, script, None).run()
        for unit in list(facts.demanded_units.values()):
            if unit is not script:
                Pass(facts, hierarchy, unit, None).run()
        for function in list(facts.demanded_functions.values()):
            if _is_overriding(hierarchy, function):
                facts.add(facts.called_unseen, [function.key])
            Pass(facts, hierarchy, function.unit, function).run()
    return facts, hierarchy


def _is_overriding(hierarchy: Hierarchy, function: Function) -> bool:
    """Whether a base class outside the project may call a method."""
    if function.owner is None or function.name == "__init__":
        return False
    return any(base is None or not base.startswith("builtins.") for base in hierarchy.library_bases(function.owner))
