"""Sites to decisions, each with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instrumentor.decide.decisions import Decision, Plan, Wrap
from instrumentor.decide.judge import Judge
from instrumentor.decide.report import Report

if TYPE_CHECKING:
    from instrumentor.analysis.sites import SiteIndex
    from instrumentor.settings import Settings
    from instrumentor.source_text import SourceText
    from instrumentor.suppressions import Suppressions

__all__ = ["Decision", "Plan", "Wrap", "decide"]


def decide(index: SiteIndex, settings: Settings, source: SourceText, suppressions: Suppressions) -> Plan:
    """Judge every site of a script.

    Args:
        index: the analysed script.
        settings: says which bindings are selected and which skipped.
        source: turns the positions of the analysis into columns.
        suppressions: the lines that the script itself excludes.
    """
    judge = Judge(index, settings, suppressions)
    report = Report(index, judge, source)
    report.add_sites()
    report.add_bindings()
    decisions = sorted(report.decisions, key=lambda each: (each.line, each.column, each.target))
    return Plan(tuple(dict.fromkeys(decisions)), tuple(report.wraps.values()))
