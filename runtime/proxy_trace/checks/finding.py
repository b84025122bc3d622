"""What looks wrong in a run, or is worth knowing: what the checks find."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

ERROR: Final = "error"
WARNING: Final = "warning"
NOTE: Final = "note"
"""How bad a finding is: this is wrong; this looks wrong; this is worth knowing."""

_SEVERITIES: Final = (ERROR, WARNING, NOTE)


class Finding(msgspec.Struct):
    """One thing that looks wrong, or is worth knowing.

    Attributes:
        code: which rule it is a finding of, such as "never-updated"; `proxy-trace explain` tells what it means.
        severity: "error", "warning" or "note".
        name: the module, parameter, optimizer, file or exception; "prefix.*" stands for everything below a module.
        reason: why this is reported, the same words for all findings of one sort.
        ranks: the ranks it was found in.
        names: how many names `name` stands for.
        step: the optimizer steps that had ended when it happened, if it happened at a time.
        time_us: when it happened, likewise, since the start of the first process.
        place: where, as "file:line", if that is known.
        trail: what made a non-finite output, what made that, and so on, back to what other modules put out.
        evidence: the numbers behind it, in a few words each.
        remedy: what to do about it; "" where nothing need be done.
        concerns: the parameters and modules that it is the cause of what becomes of, "prefix.*" for all below a module;
            empty if that is all there are.
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
    """The findings of each severity and rule, in the order in which they are told.

    A finding that explains a graver one is as grave as that, whatever its rule says.
    """
    grouped: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        grouped.setdefault((finding.severity, finding.code), []).append(finding)
    return grouped


def in_order(findings: Iterable[Finding], codes: Sequence[str], single: Collection[str]) -> list[Finding]:
    """Findings in the order in which they are told: the gravest first, then by rule, single ones by time.

    Args:
        findings: what was found in all ranks. The same in several ranks becomes one.
        codes: the codes of the rules in their order.
        single: the codes of those whose findings stay single: each rank has its own time.
    """
    findings = list(findings)
    timed = [finding for finding in findings if finding.code in single]
    timed.sort(key=lambda finding: finding.time_us or 0)
    found = [*timed, *_merged(finding for finding in findings if finding.code not in single)]
    ranked = {code: place for place, code in enumerate(codes)}
    return sorted(found, key=lambda each: (_SEVERITIES.index(each.severity), ranked.get(each.code, len(codes))))


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """The same finding in several ranks as one, at its first place."""
    merged: dict[tuple[str, str, str, int | None], Finding] = {}
    for finding in findings:
        # What has a time of its own in each rank, as a problem of tracing has, is one all the same.
        key = (finding.code, finding.name, finding.reason, None if finding.time_us is not None else finding.step)
        first = merged.get(key)
        if first is None:
            merged[key] = finding
        else:
            first.ranks = sorted({*first.ranks, *finding.ranks})
    return list(merged.values())
