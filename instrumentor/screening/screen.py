"""Whether anything in a script may need a proxy: the analysis of the script alone, with the outlines of other files.

It sees all that the script does itself. What other files may add to that is assumed wherever their outlines, which tell
what functions call and return, do not rule it out.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.fixpoint import analyse
from instrumentor.analysis.sites import SiteIndex
from instrumentor.decide.given_classes import find_given_classes
from instrumentor.decide.held_models import find_held_models
from instrumentor.decide.judge import Fate, Judge
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.unit import SCRIPT, Class, Function
from instrumentor.screening.neighbours import NeighbourProject
from instrumentor.screening.suspicion import Suspicion
from instrumentor.source.nodes import children, last_name

if TYPE_CHECKING:
    from instrumentor.resolve.project import Sources
    from instrumentor.resolve.unit import Unit
    from instrumentor.settings import Settings
    from instrumentor.source.suppressions import Suppressions


def may_wrap(script: Unit, settings: Settings, sources: Sources, suppressions: Suppressions) -> bool:
    """Whether the analysis may find something to wrap in a script.

    Args:
        script: the script.
        settings: the user's settings.
        sources: the outlines of the project's other files, and the installed packages.
        suppressions: the lines that the script excludes by comments.
    """
    if settings.min_confidence == "possible" or settings.identity_methods or settings.wrappers:
        return True  # then more takes modules than the catalogue lists
    if settings.factories or settings.module_classes:
        return True
    try:
        project = NeighbourProject(script, settings, sources)
        return _plainly_makes_module(project) or _may_wrap(project, settings, sources, suppressions)
    except RecursionError:
        return True  # deeply nested code is left to the analysis


def _plainly_makes_module(project: NeighbourProject) -> bool:
    """Whether a call outside of classes names something that may make a module: the answer for most scripts.

    What the script itself shows is left to the analysis, unless there is no other file: then it would be done twice.
    """
    script, neighbours = project.script, project.neighbours
    is_shown_here = False
    pending: list[ast.AST] = [script.tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.ClassDef):
            continue
        pending.extend(children(node))
        if isinstance(node, ast.Call) and _makes_bare_object(node.func):
            return True
        meaning = neighbours.hierarchy.resolve(script, node.func) if isinstance(node, ast.Call) else None
        is_own_function = isinstance(meaning, Function) and meaning.unit is script  # its calls are examined themselves
        if meaning is not None and not is_own_function and neighbours.given.by(meaning) is Nature.MODULE:
            if isinstance(meaning, (Class, Function)) and meaning.unit is not script:
                return True
            is_shown_here = True
    return is_shown_here and not neighbours.units


def _may_wrap(project: NeighbourProject, settings: Settings, sources: Sources, suppressions: Suppressions) -> bool:
    facts, hierarchy = analyse(project)
    given = find_given_classes(facts, hierarchy).get(SCRIPT, [])
    index = SiteIndex(facts, hierarchy, project.script)
    judge = Judge(index, settings, suppressions, {}, given, is_alone=False, called=sources.called)
    held = find_held_models(project.script, facts, hierarchy)
    verdicts = (
        *map(judge.verdict, index.own_sites),
        *(verdict for _, verdict in judge.given),
        *map(judge.verdict_of_held, held),
    )
    found = any(each.fate is Fate.WRAP for each in verdicts) or Suspicion(project, facts, index, judge).may_change
    facts.take_apart()
    return found


def _makes_bare_object(function: ast.expr) -> bool:
    """Whether the callee is the `__new__` of a class other than the enclosing one: `object.__new__(Net)`."""
    if not isinstance(function, ast.Attribute) or function.attr != "__new__":
        return False
    return not (isinstance(function.value, ast.Call) and last_name(function.value.func) == "super")
