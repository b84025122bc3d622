"""Turns sites into decisions, each with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.decide.held_models import find_held_models
from instrumentor.decide.judge import Judge
from instrumentor.decide.plan import Plan, Wrap
from instrumentor.decide.report import Report

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from instrumentor.analysis.sites import SiteIndex
    from instrumentor.analysis.values import SiteKey
    from instrumentor.decide.given_classes import GivenClass
    from instrumentor.settings import Settings
    from instrumentor.source.source_text import SourceText
    from instrumentor.source.suppressions import Suppressions

__all__ = ["Plan", "Wrap", "decide"]


def decide(
    index: SiteIndex,
    settings: Settings,
    source: SourceText,
    suppressions: Suppressions,
    elsewhere: Mapping[SiteKey, str] | None = None,
    given: Sequence[GivenClass] = (),
    *,
    is_alone: bool = False,
    called: frozenset[str] | None = None,
) -> Plan:
    """Judge every site of a script.

    Args:
        index: the analysed script.
        settings: which bindings are selected and which skipped.
        source: converts the analysis's positions to columns.
        suppressions: the lines that the script excludes by comments.
        elsewhere: the sites whose objects are wrapped in another file of the program, with the place.
        given: the script's classes that are passed to unseen code.
        is_alone: whether the project's other files stay unchanged, so that what they make gets no proxy.
        called: the script's top-level functions that other given files call; None if unknown.
    """
    judge = Judge(index, settings, suppressions, elsewhere or {}, given, is_alone=is_alone, called=called)
    report = Report(index, judge, source)
    report.add_given_classes()
    report.add_held_models(find_held_models(index.script, index.facts, index.hierarchy))
    report.add_sites()
    report.add_bindings()
    return Plan(report.decisions(), tuple(report.wraps.values()), frozenset(report.wrapped))
