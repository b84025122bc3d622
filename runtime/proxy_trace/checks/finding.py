"""Findings: what looks wrong in a run, or is worth knowing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

ERROR: Final = "error"
WARNING: Final = "warning"
NOTE: Final = "note"
"""Severities: this is wrong; this looks wrong; this is worth knowing."""

_SEVERITIES: Final = (ERROR, WARNING, NOTE)


class Finding(msgspec.Struct):
    """One thing that looks wrong, or is worth knowing.

    Attributes:
        code: the rule, such as "never-updated"; `proxy-trace explain` describes it.
        severity: "error", "warning" or "note".
        name: the module, parameter, optimizer, file or exception; "prefix.*" stands for everything below a module.
        reason: why this is reported; the same words for all findings of a kind.
        ranks: the ranks in which it was found.
        names: how many names `name` stands for.
        step: the number of optimizer steps that had ended by then; None if it belongs to no time.
        time_us: its time since the start of the first process, likewise.
        place: "file:line", or "" if unknown.
        trail: the origin of a non-finite output, the origin of that, and so on, back to outputs of other modules.
        evidence: the numbers behind it, in a few words each.
        remedy: what to do about it; "" if nothing.
        concerns: the parameters and modules whose findings it can explain, "prefix.*" for all below a module; empty for
            all.
    """

    code: str
    severity: str
    name: str
    reason: str
    ranks: list[int]
    names: int = 1
    step: int | None = None
    time_us: int | None = None
    place: str = ""
    trail: list[str] = []
    evidence: list[str] = []
    remedy: str = ""
    concerns: list[str] = []


def grouped(findings: Iterable[Finding]) -> dict[tuple[str, str], list[Finding]]:
    """The findings of each severity and rule, in report order.

    A finding that explains a more severe one has that severity, whatever its rule says.
    """
    grouped: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        grouped.setdefault((finding.severity, finding.code), []).append(finding)
    return grouped


def in_order(findings: Iterable[Finding], codes: Sequence[str], single: Collection[str]) -> list[Finding]:
    """Findings in report order: by severity, then by rule; those of `single` rules by time.

    Args:
        findings: the findings of all ranks. The same finding in several ranks becomes one.
        codes: the codes of the rules in their order.
        single: codes whose findings are not merged, because each rank has its own time.
    """
    findings = list(findings)
    timed = [finding for finding in findings if finding.code in single]
    timed.sort(key=lambda finding: finding.time_us or 0)
    found = [*timed, *_merged(finding for finding in findings if finding.code not in single)]
    ranked = {code: place for place, code in enumerate(codes)}
    return sorted(found, key=lambda each: (_SEVERITIES.index(each.severity), ranked.get(each.code, len(codes))))


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """Merge the same finding in several ranks into one, at its first place."""
    merged: dict[tuple[str, str, str, int | None], Finding] = {}
    for finding in findings:
        # A finding with a time, such as a tracing problem, is the same in all ranks although their times differ.
        key = (finding.code, finding.name, finding.reason, None if finding.time_us is not None else finding.step)
        first = merged.get(key)
        if first is None:
            merged[key] = finding
        else:
            first.ranks = sorted({*first.ranks, *finding.ranks})
    return list(merged.values())
