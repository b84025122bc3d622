"""The question whether anything in a script may be wrapped, answered without analysing what it calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.resolve.classes import Hierarchy
from instrumentor.resolve.units import Project
from instrumentor.screening.circulation import Circulation
from instrumentor.screening.names import Callables, Gives, Names
from instrumentor.screening.outer_code import OuterCode
from instrumentor.screening.plain_containers import PlainContainers
from instrumentor.source.nodes import children

if TYPE_CHECKING:
    from collections.abc import Callable

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
        wraps_factories = settings.wrap_factories == "always" or (
            settings.wrap_factories == "auto" and sources.called is not None
        )
        return _may_wrap(script, lambda: Hierarchy(Project(script, settings, sources)), wraps_factories=wraps_factories)
    except RecursionError:
        return True  # nested deeply: the analysis is the judge


def _may_wrap(script: Unit, make_hierarchy: Callable[[], Hierarchy], *, wraps_factories: bool) -> bool:
    hierarchy = make_hierarchy()
    names = Names(script, hierarchy)
    # With classes of its own: it leads to many files, and the files of a project are bounded.
    circulation = Circulation(script, make_hierarchy)
    callables = Callables(hierarchy, lambda: Gives.ANYTHING if circulation.has_makers else Gives.UNKNOWN)
    outer = OuterCode(script, hierarchy, names, callables, wraps_factories=wraps_factories)
    # First what needs no other file to be read: most scripts that hold models show so by that.
    calls = [node for node in _nodes(script.tree, lambda _: True) if isinstance(node, ast.Call)]
    if any(map(outer.uses_as_module, calls)):
        return True
    if any(map(outer.calls_what_is_not_known, calls)) and callables.unnamed is Gives.ANYTHING:
        return True
    outside_modules = _nodes(script.tree, lambda node: hierarchy.is_module(script.class_of[node]))
    if outer.may_hold_model(outside_modules):
        return True
    if not any(map(hierarchy.is_module, script.class_of.values())):
        return False  # no class of modules, which might keep some
    # What may be called without a name of its own is followed there, as long as it stays in the file.
    plain = PlainContainers(script, hierarchy, names, Callables(hierarchy, lambda: Gives.UNKNOWN))
    if plain.may_hold_model():
        return True
    anything = Callables(hierarchy, lambda: Gives.ANYTHING)
    return plain.hands_out_makers and PlainContainers(script, hierarchy, names, anything).may_hold_model()


def _nodes(tree: ast.Module, is_left_out: Callable[[ast.ClassDef], bool]) -> list[ast.AST]:
    """The nodes of a tree but for the bodies of some classes, and for operators and contexts."""
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
