"""Merges findings with their cause: each cause is one finding, and its consequences are its evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from proxy_trace.checks.rule import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy_trace.checks.finding import Finding
    from proxy_trace.checks.rule import Rule


class Folded(NamedTuple):
    """Findings, merged by cause.

    Attributes:
        remaining: the findings that none explains, in order.
        causes: for each explained finding, by `id`, the remaining finding that is its cause.
    """

    remaining: list[Finding]
    causes: dict[int, Finding]

    def cause_of(self, finding: Finding) -> Finding:
        """The finding in which `finding` is reported: its cause, or itself."""
        return self.causes.get(id(finding), finding)


def fold(findings: Sequence[Finding], rules: Mapping[str, Rule]) -> Folded:
    """Remove the findings that another one explains.

    A finding explains another if its rule says so (`Rule.explains`), it was found in the same ranks, and it concerns
    the other's name. It takes over the severity of what it explains, and names that in its evidence.

    Args:
        findings: the findings, in any order; the remaining ones are changed.
        rules: by code.

    Returns:
        The remaining findings, in the same order, and the causes of the others.
    """
    causes = sorted(findings, key=lambda each: -_reach(each.code, rules))
    explained: dict[int, Finding] = {}
    for finding in findings:
        for cause in causes:
            if cause is not finding and _explains(cause, finding, rules):
                explained[id(finding)] = cause
                break
    remaining = [finding for finding in findings if id(finding) not in explained]
    roots: dict[int, Finding] = {}
    for finding in findings:
        first = explained.get(id(finding))
        if first is None:
            continue
        cause = first
        seen = {id(finding)}
        while id(cause) in explained and id(cause) not in seen:
            seen.add(id(cause))
            cause = explained[id(cause)]
        if id(cause) in explained:  # A cycle, which rules should not have.
            remaining.append(finding)
            continue
        roots[id(finding)] = cause
        cause.severity = min(cause.severity, finding.severity, key=SEVERITIES.index)
        words = f"so {finding.code}: {finding.name}"
        if words not in cause.evidence:
            cause.evidence.append(words)
    return Folded(remaining, roots)


def _reach(code: str, rules: Mapping[str, Rule]) -> int:
    """How many rules a rule explains. Of two causes, the one that explains the other comes first."""
    rule = rules.get(code)
    return len(rule.explains) if rule is not None else 0


def _explains(cause: Finding, finding: Finding, rules: Mapping[str, Rule]) -> bool:
    rule = rules.get(cause.code)
    if rule is None or finding.code not in rule.explains or not set(finding.ranks) <= set(cause.ranks):
        return False
    return not cause.concerns or any(_covers(each, finding.name) for each in cause.concerns)


def _covers(prefix: str, name: str) -> bool:
    """Whether `name` equals `prefix` or lies below it; both may end in ".*"."""
    prefix, name = prefix.removesuffix(".*"), name.removesuffix(".*")
    return name == prefix or name.startswith(f"{prefix}.")
