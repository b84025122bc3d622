"""Merges the names of everything below a module into one name."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST_PREFIXES: Final = 1 << 28
"""The maximum total length of the prefixes of all names; a million parameters have less."""


def fold_names(names: Iterable[str], all_names: Iterable[str]) -> list[tuple[str, int]]:
    """Merge names into "prefix.*" if they are everything below a prefix.

    Args:
        names: dotted names, each among `all_names`.
        all_names: everything there is.

    Returns:
        The names in order, each with the number of names it stands for; a prefix stands for at least two.
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
    """The dotted prefixes of a name, shortest first, without the name itself."""
    parts = name.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]
