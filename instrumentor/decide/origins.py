"""The classes of a script's objects, and where they were found."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.resolve.classes import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from instrumentor.analysis.entries import Site
    from instrumentor.analysis.sites import SiteIndex
    from instrumentor.analysis.values import SiteKey
    from instrumentor.resolve.unit import Class


class ObjectOrigin(NamedTuple):
    """The classes of an object, and where they were found.

    Attributes:
        class_names: the object's possible classes, dotted; the script's own classes by name.
        read_at: where the first of them was found: a path with a line; "catalogue" or "configuration" if only these
            name it; empty if the object is known only by its use.
    """

    class_names: tuple[str, ...] = ()
    read_at: str = ""


class Origins:
    """Finds the origins of the objects that sites make."""

    def __init__(self, index: SiteIndex) -> None:
        self._index = index
        self._by_label: dict[str, ObjectOrigin] = {}
        self._ends: dict[SiteKey, Site] = {}

    def of(self, sites: Iterable[Site]) -> ObjectOrigin:
        """The origin of the objects made at some sites, or at the sites whose objects they return."""
        found: dict[str, str] = {}
        read_at = ""
        seen: set[SiteKey] = set()
        pending = deque(sites)
        if len(pending) == 1:
            pending.append(self._end(pending.pop()))
        while pending:
            site = pending.popleft()
            if site.key in seen:
                continue
            seen.add(site.key)
            for key in sorted(site.class_keys):
                cls = self._index.hierarchy.project.class_at(key)
                if cls is not None:
                    found.setdefault(dotted_name(cls), self._place(cls))
            if not site.class_keys and not site.origins:
                for label in site.labels:
                    origin = self._of_label(label)
                    found.update((name, origin.read_at) for name in origin.class_names if name not in found)
                    read_at = read_at or origin.read_at
            pending.extend(
                self._index.facts.sites[key] for key in sorted(site.origins) if key in self._index.facts.sites
            )
        return ObjectOrigin(tuple(found), next(iter(found.values()), read_at))

    def _end(self, site: Site) -> Site:
        """The first site in the chain of origins that does more than return another site's object."""
        passed: dict[SiteKey, None] = {}
        while site.key not in self._ends and site.key not in passed:
            passed[site.key] = None
            origin = self._index.facts.sites.peek(next(iter(site.origins))) if len(site.origins) == 1 else None
            if origin is None or site.class_keys:
                break
            site = origin
        found = self._ends.get(site.key, site)
        self._ends.update(dict.fromkeys(passed, found))
        return found

    def of_class(self, cls: Class) -> ObjectOrigin:
        """The origin of an instance of a project class."""
        return ObjectOrigin((dotted_name(cls),), self._place(cls))

    def _of_label(self, label: str) -> ObjectOrigin:
        if label not in self._by_label:
            origin = self._index.hierarchy.knowledge.origin(label)
            self._by_label[label] = (
                ObjectOrigin() if origin is None else ObjectOrigin(origin.class_names, origin.place or origin.source)
            )
        return self._by_label[label]

    def _place(self, cls: Class) -> str:
        """Where a class is defined: its file, from the script's folder, and line; in the script only the line."""
        return f"{cls.unit.name}:{cls.node.lineno}" if cls.unit.name else f"line {cls.node.lineno}"
