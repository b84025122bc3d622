"""The subject of a history: a name in the model, or a place in the script where a variable is created.

Python creates a new tensor where mathematics has one variable. The tensors of all iterations have their place in
common: the line (with its callers, up to the enclosing module), what is called there, and the ordinal of the call
within one call of the enclosing module.
"""

from __future__ import annotations

import difflib
import fnmatch
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_trace.errors import UnknownNameError, UnknownPlaceError
from proxy_wrapper.events import Parameter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy_trace.reading.names import Names
    from proxy_wrapper.events import Location

_PLACE: Final = re.compile(r"(?P<file>.+?):(?P<line>\d+)(?::(?P<target>[^:]*[^:\d][^:]*))?(?::(?P<ordinal>\d+))?")
_GLOB: Final = re.compile(r"[*?\[]")
_GRADIENT: Final = ".grad"
_SUGGESTIONS: Final = 5


class Subject(NamedTuple):
    """What is followed in one file, by ids of that file.

    Attributes:
        tensors: parameters and buffers.
        modules: modules.
        locations: places where something happens.
        target: only calls of this function, method or module at those places; "" for all.
        ordinal: only calls with this ordinal within one call of the enclosing module; None for all.
        only_gradients: whether only the gradients of the tensors are followed.
    """

    tensors: frozenset[int] = frozenset()
    modules: frozenset[int] = frozenset()
    locations: frozenset[int] = frozenset()
    target: str = ""
    ordinal: int | None = None
    only_gradients: bool = False

    def has_call(self, location: int, target: str, ordinal: int) -> bool:
        """Whether a call of `target` at `location` is followed. The last part of a dotted name is enough."""
        if location not in self.locations or self.ordinal not in (None, ordinal):
            return False
        return not self.target or target == self.target or target.endswith(f".{self.target}")


def find_subjects(what: str, names: Sequence[Names]) -> list[Subject]:
    """The subject of `what` in each file of a trace.

    Args:
        what: the name of a parameter, buffer or module, or a glob of such; the name of a parameter and ".grad"; or
            `file:line`, `file:line:ordinal`, `file:line:target`, `file:line:target:ordinal`.
        names: resolves the ids in each file.

    Raises:
        UnknownNameError: if there is no such name; it suggests the nearest.
        UnknownPlaceError: if nothing was recorded there; it suggests places nearby.
    """
    subjects = [_by_name(what, of_file) for of_file in names]
    if any(subject.tensors or subject.modules for subject in subjects):
        return subjects
    place = _PLACE.fullmatch(what)
    if place is None:
        raise UnknownNameError(what, nearest_names(what, names))
    ordinal = place["ordinal"]
    found = []
    for of_file in names:
        locations = _by_place(place["file"], int(place["line"]), of_file.locations)
        found.append(
            Subject(locations=locations, target=place["target"] or "", ordinal=int(ordinal) if ordinal else None)
        )
    if not any(subject.locations for subject in found):
        every = [location for of_file in names for location in of_file.locations.values()]
        near = _near(place["file"], int(place["line"]), every)
        raise UnknownPlaceError(what, *near, has_calls=are_calls_recorded(names))
    return found


def are_calls_recorded(names: Iterable[Names]) -> bool:
    """Whether any process recorded calls of torch functions."""
    return any(module.level == "DEBUG" for of_file in names for module in of_file.modules.values())


def _by_name(what: str, names: Names) -> Subject:
    matches = re.compile(fnmatch.translate(what)).match if _GLOB.search(what) else what.__eq__
    tensors = frozenset(
        id_ for id_, tensor in names.tensors.items() if any(map(matches, (tensor.name, *tensor.aliases)))
    )
    modules = frozenset(id_ for id_, module in names.modules.items() if matches(module.name))
    if tensors or modules or not what.endswith(_GRADIENT):
        return Subject(tensors, modules)
    of_gradient = _by_name(what[: -len(_GRADIENT)], names)
    parameters = frozenset(id_ for id_ in of_gradient.tensors if isinstance(names.tensors[id_], Parameter))
    return Subject(parameters, only_gradients=True)


def nearest_names(what: str, names: Iterable[Names]) -> list[str]:
    """Names in the trace that `what` may refer to: those that end with it, then those spelled similarly."""
    every: dict[str, None] = {}
    for of_file in names:
        every.update(dict.fromkeys(module.name for module in of_file.modules.values()))
        for tensor in of_file.tensors.values():
            every.update(dict.fromkeys((tensor.name, *tensor.aliases)))
    ending = [name for name in every if name.endswith(f".{what}")]
    alike = difflib.get_close_matches(what, every, n=_SUGGESTIONS, cutoff=0.5)
    return list(dict.fromkeys((*ending, *alike)))[:_SUGGESTIONS]


def places_near(what: str, names: Iterable[Names]) -> list[str]:
    """Places in the trace near `what`, as "file:line"; empty if it is not a place."""
    place = _PLACE.fullmatch(what)
    if place is None:
        return []
    every = [location for of_file in names for location in of_file.locations.values()]
    kind, near = _near(place["file"], int(place["line"]), every)
    return near if kind == "line" else []


def _by_place(file: str, line: int, locations: dict[int, Location]) -> frozenset[int]:
    """The locations on a line of a file, and those called from it if the line only calls user code."""
    on_line = frozenset(
        id_ for id_, location in locations.items() if location.line == line and is_file(location.file, file)
    )
    callers = frozenset(location.caller for location in locations.values())
    return on_line if on_line - callers else _called_from(on_line, locations)


def _called_from(callers: frozenset[int], locations: dict[int, Location]) -> frozenset[int]:
    """`callers`, and all locations with one of them among their ancestors."""
    found = set(callers)
    for id_ in sorted(locations):  # Callers are defined first.
        if locations[id_].caller in found:
            found.add(id_)
    return frozenset(found)


def is_file(path: str, wanted: str) -> bool:
    """Whether the file of a location is the requested one: by its path, the end of it, or a glob."""
    path, wanted = path.replace("\\", "/"), wanted.replace("\\", "/")
    return path == wanted or path.endswith(f"/{wanted}") or fnmatch.fnmatchcase(path, wanted)


def _near(file: str, line: int, locations: Sequence[Location]) -> tuple[str, list[str]]:
    """Alternatives: ("line", places in that file, nearest first) or ("file", the files)."""
    in_file = {location.line: location.file for location in locations if is_file(location.file, file)}
    if in_file:
        lines = sorted(in_file, key=lambda there: (abs(there - line), there))[:_SUGGESTIONS]
        return "line", [f"{in_file[there]}:{there}" for there in sorted(lines)]
    files = dict.fromkeys(location.file for location in locations)
    alike = difflib.get_close_matches(file, files, n=_SUGGESTIONS, cutoff=0.3)
    return "file", alike or list(files)[:_SUGGESTIONS]
