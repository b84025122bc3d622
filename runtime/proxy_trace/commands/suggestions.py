"""Suggests names if a glob or place matches nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_trace.errors import UnknownGlobError
from proxy_trace.reading.selection import GlobMatcher
from proxy_trace.tensors.identity import nearest_names, places_near

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy_trace.reading.names import Names
    from proxy_trace.reading.trace import Trace


def check_names(traces: Iterable[Trace], globs: Sequence[str] | None, *, with_modules: bool = False) -> None:
    """Check that some parameter or buffer (or module, if `with_modules`) is chosen.

    Raises:
        UnknownGlobError: if no glob matches anything; the message suggests the nearest name.
    """
    if not globs:
        return
    names = [file.names() for trace in traces for file in trace.files]
    matches = GlobMatcher(globs)
    every = [each for of_file in names for each in _state_names(of_file)]
    if with_modules:
        every += [each for of_file in names for each in _module_names(of_file)]
    if not any(map(matches, every)):
        raise UnknownGlobError(globs[0], nearest_names(globs[0], names))


def nearest_to(globs: Iterable[str], names: Sequence[Names]) -> str:
    """A suggestion for the first glob that matches nothing: the nearest names; "" if none is near.

    For a place such as `train.py:40`, these are the nearest places.
    """
    for glob in globs:
        matches = GlobMatcher([glob])
        every = (each for of_file in names for each in (*_state_names(of_file), *_module_names(of_file)))
        if any(map(matches, every)):
            continue
        nearest = nearest_names(glob, names)
        if nearest:
            return f"; did you mean {', '.join(nearest)}?"
        near = places_near(glob, names)
        if near:
            return f"; near '{glob}' are {', '.join(near)}: 'proxy-trace history {near[0]}' says what happens there"
    return ""


def _state_names(names: Names) -> Iterable[str]:
    return (name for tensor in names.tensors.values() for name in (tensor.name, *tensor.aliases))


def _module_names(names: Names) -> Iterable[str]:
    return (module.name for module in names.modules.values())
