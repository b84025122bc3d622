"""Decisions about several files of one program; each takes into account what the others wrap."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from instrumentor.analysis.sites import SiteIndex
from instrumentor.decide import decide
from instrumentor.decide.unreached import find_unreached
from instrumentor.source.suppressions import read_suppressions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from instrumentor.analysis.facts import Facts
    from instrumentor.analysis.values import SiteKey
    from instrumentor.decide import Plan
    from instrumentor.decide.given_classes import GivenClass
    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.unit import Unit
    from instrumentor.settings import Settings
    from instrumentor.source.source_text import SourceText


def decide_program(
    units: Iterable[Unit],
    facts: Facts,
    hierarchy: Hierarchy,
    given: Mapping[str, Sequence[GivenClass]],
    settings: Settings,
    *,
    source_name: str,
    text_of: Callable[[Unit], SourceText],
) -> dict[str, tuple[Unit, Plan]]:
    """Decide about each file of a program.

    Args:
        units: importers before the modules they import, so that callers are decided before the functions they call.
        facts: the analysis of the whole program.
        hierarchy: its classes.
        given: the classes that are passed to unseen code, by file.
        settings: what the user asked for.
        source_name: the path of the script that is run.
        text_of: returns the text of a file.

    Returns:
        The plans by file name.
    """
    plans: dict[str, tuple[Unit, Plan]] = {}
    read = [hierarchy.project.script, *filter(None, hierarchy.project.units.values())]
    unreached = find_unreached(list(dict.fromkeys(read)), facts)
    elsewhere: dict[SiteKey, str] = {}
    for unit in units:
        text = text_of(unit)
        index = SiteIndex(facts, hierarchy, unit, unreached)
        plan = decide(index, settings, text, read_suppressions(text), elsewhere, given.get(unit.name, ()))
        plans[unit.name] = (unit, plan)
        _note_origins(facts, plan, recorded_path(source_name, unit.name), elsewhere)
    return plans


def files_with_models(facts: Facts, given: Mapping[str, Sequence[GivenClass]]) -> set[str]:
    """The files of a program that need any decision."""
    return {site.unit.name for site in facts.sites.values()} | given.keys()


def recorded_path(source_name: str, path: str) -> str:
    """The path of a program's file for its source comment."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(source_name), path)) if path else source_name


def _note_origins(facts: Facts, plan: Plan, recorded: str, elsewhere: dict[SiteKey, str]) -> None:
    """Record the objects of other files that are wrapped in this one."""
    for key in sorted(plan.wrapped):
        pending = list(facts.sites[key].origins) if key in facts.sites else []
        while pending:
            origin = pending.pop()
            if origin.unit != key.unit and origin not in elsewhere:
                elsewhere[origin] = f"{recorded}, line {key.line}"
                pending.extend(facts.sites[origin].origins if origin in facts.sites else ())
