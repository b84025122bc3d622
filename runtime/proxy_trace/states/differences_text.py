"""Differences between traces that should agree, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.terminal.units import format_count, format_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_trace.states.differences import Difference
    from proxy_wrapper.events import Statistics


_FIELDS: Final = ("norm", "minimum", "maximum", "nonfinite", "bits")


def how_often(found: Difference) -> str:
    """The number of steps with a difference, and the last one unless they are consecutive."""
    until = "" if found.last_step == found.first_step + found.steps - 1 else f", last {found.last_step}"
    return f"{found.steps:,} of {format_count(found.compared, 'step')}{until}"


def values_apart(values: Sequence[Statistics | None]) -> str:
    """The statistic (norm, minimum or maximum) that separates the most groups, with as many digits as needed.

    If all of these are equal, fingerprints are shown.
    """
    field, words = words_apart(values)
    return f"{field} {' | '.join(words)}".lstrip()


def words_apart(values: Sequence[Statistics | None]) -> tuple[str, list[str]]:
    """The parts of `values_apart`: the name of the statistic ("" if some have none), and its value in each."""
    if any(each is None for each in values):
        return "", ["none" if each is None else f"norm {format_number(each.norm)}" for each in values]
    by_field = {field: [getattr(each, field) for each in values] for field in _FIELDS}
    field = max(by_field, key=lambda field: len(set(map(repr, by_field[field]))))
    numbers = by_field[field]
    if field == "bits":
        return field, [str(bits) for bits in numbers]
    words = [format_number(number) for number in numbers]
    if len(set(words)) < len(set(map(repr, numbers))):
        words = [f"{number:.9g}" if isinstance(number, float) else str(number) for number in numbers]
    return field, words
