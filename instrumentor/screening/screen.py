"""Whether anything in a script may need a proxy, decided without analysing what it calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.resolve.classes import Hierarchy
from instrumentor.resolve.project import Project
from instrumentor.screening.circulation import Circulation
from instrumentor.screening.names import Callables, Gives, Names
from instrumentor.screening.outer_code import OuterCode
from instrumentor.screening.plain_containers import PlainContainers
from instrumentor.source.nodes import children

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.resolve.project import Sources
    from instrumentor.resolve.unit import Unit
    from instrumentor.settings import Settings


def may_wrap(script: Unit, settings: Settings, sources: Sources) -> bool:
    """Whether the analysis may find something to wrap in a script.

    Args:
        script: the script.
        settings: the user's settings.
        sources: the outlines of the project's other files, and the installed packages.
    """
    if settings.min_confidence == "possible" or settings.identity_methods or settings.wrappers:
        return True  # then more takes modules than the catalogue lists
    if settings.factories or settings.module_classes:
        return True
    try:
        return _may_wrap(script, lambda: Hierarchy(Project(script, settings, sources)))
    except RecursionError:
        return True  # deeply nested code is left to the analysis


def _may_wrap(script: Unit, make_hierarchy: Callable[[], Hierarchy]) -> bool:
    hierarchy = make_hierarchy()
    names = Names(script, hierarchy)
    # It gets a hierarchy of its own, as it reads many files and the number of a project's files is bounded.
    circulation = Circulation(script, make_hierarchy)
    callables = Callables(hierarchy, lambda: Gives.ANYTHING if circulation.has_makers else Gives.UNKNOWN)
    outer = OuterCode(script, hierarchy, names, callables)
    # First what needs no other file: most scripts with models are recognised by it.
    outside_classes = _nodes(script.tree, lambda _: True)
    calls = [node for node in outside_classes if isinstance(node, ast.Call)]
    if any(map(outer.uses_as_module, calls)):
        return True
    if any(map(outer.calls_what_is_not_known, calls)) and callables.unnamed is Gives.ANYTHING:
        return True
    outside_modules = _nodes(script.tree, lambda node: hierarchy.is_module(script.class_of[node]))
    if outer.may_hold_model(outside_modules, outside_classes):
        return True
    if not any(map(hierarchy.is_module, script.class_of.values())):
        return False  # no module class that could hold any
    return PlainContainers(script, hierarchy, names, callables).may_hold_model()


def _nodes(tree: ast.Module, is_left_out: Callable[[ast.ClassDef], bool]) -> list[ast.AST]:
    """The nodes of a tree, without the bodies of some classes, operators and contexts."""
    found: list[ast.AST] = []
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        found.append(node)
        if isinstance(node, ast.ClassDef) and is_left_out(node):
            pending.extend((*node.decorator_list, *node.bases, *(each.value for each in node.keywords)))
        else:
            pending.extend(children(node))
    return found
