"""Merges NaN and infinities with their origin: one cause is one finding."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.folding import Folded
from proxy_trace.checks.non_finite_values import LOSS, NON_FINITE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy_trace.checks.finding import Finding

_SHOWN: Final = 3
_STEPS_APART: Final = 1
"""Between models, non-finite values pass within the same step or to the next one; later ones have their own cause."""


def fold_non_finite(findings: Sequence[Finding]) -> Folded:
    """Remove the non-finite values that follow from an earlier one.

    Within a model, all later ones follow: a non-finite output makes the loss, the gradients, the weights and then every
    output non-finite. Between models, they pass through exchanged tensors, at once or a step later.

    Args:
        findings: the findings, in any order; the first one of each cause gets the others as evidence.

    Returns:
        The remaining findings, in the same order, and the causes of the others.
    """
    timed = sorted((each for each in findings if each.code == NON_FINITE.code), key=lambda each: each.time_us or 0)
    groups: list[_Group] = []
    for finding in timed:
        group = next((group for group in groups if group.has_led_to(finding)), None)
        if group is None:
            groups.append(_Group(finding))
        else:
            group.add(finding)
    causes: dict[int, Finding] = {}
    for group in groups:
        group.first.evidence += _words(group.others)
        causes.update((id(each), group.first) for each in group.others)
    return Folded([each for each in findings if id(each) not in causes], causes)


class _Group:
    """Non-finite values of one cause, in one rank."""

    def __init__(self, first: Finding) -> None:
        self.first = first
        self.others: list[Finding] = []
        self._roots = {_root(first)}
        self._last_step = first.step or 0

    def has_led_to(self, later: Finding) -> bool:
        if later.ranks != self.first.ranks:
            return False
        return _root(later) in self._roots or (later.step or 0) - self._last_step <= _STEPS_APART

    def add(self, later: Finding) -> None:
        self.others.append(later)
        self._roots.add(_root(later))
        self._last_step = max(self._last_step, later.step or 0)


def _root(finding: Finding) -> str:
    """The model that a value belongs to."""
    return finding.name.partition(".")[0]


def _words(others: Iterable[Finding]) -> list[str]:
    """What followed, a line per kind: "then the gradient of model.fc.weight and 3 more, at step 13"."""
    by_sort: dict[str, list[Finding]] = defaultdict(list)
    for each in others:
        by_sort[each.reason.partition(":")[0].partition(" (")[0]].append(each)
    lines = []
    for sort, found in by_sort.items():
        names = list(dict.fromkeys(each.name for each in found))
        more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        of = "" if sort == LOSS else f" of {', '.join(names[:_SHOWN])}{more}"
        first = found[0]
        step = f", at step {first.step:,}" if first.step is not None else ""
        place = f", {first.place}" if first.place else ""
        lines.append(f"then {sort}{of}{step}{place}")
    return lines
