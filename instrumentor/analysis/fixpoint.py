"""The analysis of a whole script: every scope again and again until nothing new is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.analysis.facts import Facts
from instrumentor.analysis.statements import Pass
from instrumentor.resolve.classes import Hierarchy

if TYPE_CHECKING:
    from instrumentor.resolve.units import Project

# The tables grow towards a finite bound, so the rounds end by themselves, mostly after three; what a script
# that needs more would still gain is not worth its time.
_MAX_ROUNDS = 12


def analyse(project: Project) -> tuple[Facts, Hierarchy]:
    """Find out which objects a script makes and which of its names may hold them."""
    facts = Facts()
    hierarchy = Hierarchy(project)
    script = project.script
    for function in script.function_of.values():
        facts.demanded_functions[function.key] = function
    for _ in range(_MAX_ROUNDS):
        version = facts.version
        Pass(facts, hierarchy, script, None).run()
        for unit in list(facts.demanded_units.values()):
            if unit is not script:
                Pass(facts, hierarchy, unit, None).run()
        for function in list(facts.demanded_functions.values()):
            Pass(facts, hierarchy, function.unit, function).run()
        if facts.version == version:
            break
    return facts, hierarchy
