"""What looks wrong in a run, or is worth knowing: what the checks find."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS: Final = (
    "ended",
    "non_finite",
    "no_effect",
    "never_updated",
    "never_called",
    "ranks_part",
    "problem",
    "incomplete",
    "uncalled",
    "evaluated",
    "untrained",
    "frozen",
)
"""The kinds of findings, in the order in which they are told."""

NOTES: Final = frozenset({"uncalled", "evaluated", "untrained", "frozen"})
"""The kinds of findings that are worth knowing rather than wrong."""

OF_PARAMETERS: Final = frozenset({"never_updated", "ranks_part", "evaluated", "untrained", "frozen"})
"""The kinds whose names are those of parameters."""

_LONGEST_PREFIXES: Final = 1 << 28
"""How long the names above all names are together, as much as is worked with; a million parameters have less."""


class Finding(msgspec.Struct):
    """One thing that looks wrong.

    Attributes:
        kind: one of `KINDS`; of those in `NOTES` it is worth knowing rather than wrong.
        name: the module, parameter, file or exception; "prefix.*" stands for everything below a module.
        reason: why this is reported, the same words for all findings of one sort.
        ranks: the ranks it was found in.
        names: how many names `name` stands for.
        step: the optimizer steps that had ended when it happened, if it happened at a time.
        time_us: when it happened, likewise, since the start of the first process.
        place: where, as "file:line", if that is known.
        trail: what made a non-finite output, what made that, and so on, back to what other modules put out.
    """

    kind: str
    name: str
    reason: str
    ranks: list[int]
    names: int = 1
    step: int | None = None
    time_us: int | None = None
    place: str = ""
    trail: list[str] = []


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Findings in the order in which they are told: by kind, non-finite values by time.

    The same finding in several ranks is one, but for non-finite values: each has its own time.
    """
    findings = list(findings)
    non_finite = [finding for finding in findings if finding.kind == "non_finite"]
    non_finite.sort(key=lambda finding: finding.time_us or 0)
    found = [*non_finite, *_merged(finding for finding in findings if finding.kind != "non_finite")]
    return sorted(found, key=lambda finding: KINDS.index(finding.kind))


def fold_names(names: Iterable[str], all_names: Iterable[str]) -> list[tuple[str, int]]:
    """Put "prefix.*" for names that are all there is below a prefix.

    Args:
        names: dotted names, each among `all_names`.
        all_names: everything there is.

    Returns:
        The names in order with how many each stands for; a prefix stands for at least two.
    """
    names, all_names = list(names), list(all_names)
    if sum(len(name) * name.count(".") for name in all_names) > _LONGEST_PREFIXES:
        return [(name, 1) for name in names]
    there_are = Counter(prefix for name in all_names for prefix in _prefixes(name))
    given = Counter(prefix for name in names for prefix in _prefixes(name))
    folded: dict[str, int] = {}
    for name in names:
        for prefix in _prefixes(name):
            if given[prefix] == there_are[prefix] > 1:
                folded[f"{prefix}.*"] = given[prefix]
                break
        else:
            folded[name] = 1
    return list(folded.items())


def _prefixes(name: str) -> list[str]:
    """The dotted prefixes of a name, shortest first, itself left out."""
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def _merged(findings: Iterable[Finding]) -> list[Finding]:
    """The same finding in several ranks as one, at its first place."""
    merged: dict[tuple[str, str, str, int | None], Finding] = {}
    for finding in findings:
        # A problem is one wherever it was met.
        key = (finding.kind, finding.name, finding.reason, None if finding.kind == "problem" else finding.step)
        first = merged.get(key)
        if first is None:
            merged[key] = finding
        else:
            first.ranks = sorted({*first.ranks, *finding.ranks})
    return list(merged.values())
