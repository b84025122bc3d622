"""The question whether anything in a script may be wrapped, answered without analysing what it calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.resolve.classes import Hierarchy
from instrumentor.resolve.units import Project
from instrumentor.screening.names import Callables, Names
from instrumentor.screening.outer_code import OuterCode
from instrumentor.screening.plain_containers import PlainContainers

if TYPE_CHECKING:
    from instrumentor.resolve.units import Sources, Unit
    from instrumentor.settings import Settings


def may_wrap(script: Unit, settings: Settings, sources: Sources) -> bool:
    """Whether the analysis may find something in a script that is to be wrapped.

    Args:
        script: the script.
        settings: what the user asked for.
        sources: the outlines of the project's other files, and the packages installed.
    """
    if settings.min_confidence == "possible" or settings.identity_methods or settings.wrappers:
        return True  # more than the catalogue has takes modules then
    if settings.factories or settings.module_classes:
        return True
    try:
        return _may_wrap(script, Hierarchy(Project(script, settings, sources)))
    except RecursionError:
        return True  # nested deeply: the analysis is the judge


def _may_wrap(script: Unit, hierarchy: Hierarchy) -> bool:
    names = Names(script, hierarchy)
    callables = Callables(hierarchy)
    outer = []
    pending: list[ast.AST] = [script.tree]
    while pending:
        node = pending.pop()
        outer.append(node)
        if isinstance(node, ast.ClassDef) and hierarchy.is_module(script.class_of[node]):
            pending.extend((*node.decorator_list, *node.bases, *(each.value for each in node.keywords)))
        else:
            pending.extend(ast.iter_child_nodes(node))
    if OuterCode(script, outer, hierarchy, names, callables).may_hold_model():
        return True
    return PlainContainers(script.parents, hierarchy, names, callables).may_hold_model()
