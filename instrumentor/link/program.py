"""The facts of some files, and of all files that their imports lead to."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from instrumentor.code.lowering import lower
from instrumentor.errors import InstrumentError
from instrumentor.link.places import ImportPlaces
from instrumentor.nesting import room_for_nesting
from instrumentor.paths.file_state import digest_of
from instrumentor.resolve import catalogue
from instrumentor.source.source_text import decode, parse
from instrumentor.source.undo import original_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from instrumentor.code.facts import FileFacts
    from instrumentor.code.store import FactsStore
    from instrumentor.link.places import Target
    from instrumentor.resolve.search_path import SearchPaths


# How many files are read besides those given: some for each of them, and some more.
_BESIDES_EACH = 4
_BESIDES = 64


@dataclass
class Program:
    """Files with what each leads to.

    Attributes:
        paths: where they lie.
        facts: what they do; None for what is no Python.
        number: of each file, by its path.
        places: finds what imports lead to.
        imports: the files that each imports.
        leads_to: the files that each leads to, itself included, as a set of bits.
        unread: the files that were not read because there are too many, as a set of bits.
    """

    paths: list[str]
    facts: list[FileFacts | None]
    number: dict[str, int]
    places: ImportPlaces
    imports: list[set[int]] = field(default_factory=list)
    leads_to: list[int] = field(default_factory=list)
    unread: int = 0
    _targets: dict[tuple[int, str], list[tuple[int, tuple[str, ...]]]] = field(default_factory=dict)

    def is_known(self, file: int) -> bool:
        """Whether all files that a file leads to were read."""
        return not self.leads_to[file] & self.unread

    def targets(self, file: int, dotted: str) -> list[tuple[int, tuple[str, ...]]]:
        """The files that a name may lead to as a file imports it, each with the names in it; none for a library's."""
        key = (file, dotted)
        if key not in self._targets:
            self._targets[key] = [
                (self.number[each.path], each.rest)
                for each in self._found(file, dotted)
                if each.path in self.number and self.facts[self.number[each.path]] is not None
            ]
        return self._targets[key]

    def _found(self, file: int, dotted: str) -> list[Target]:
        return [] if is_told_by_catalogue(dotted) else self.places.find(self.paths[file], dotted)


def is_told_by_catalogue(dotted: str) -> bool:
    """Whether a name is one of PyTorch's own, whatever folder of that name there is."""
    return dotted.partition(".")[0] == "torch"


def may_be_library(dotted: str) -> bool:
    """Whether a name of the project may be taken for a library's, depending on where the script lies."""
    return not dotted.startswith(".") and dotted.partition(".")[0] in catalogue.CATALOGUED_PACKAGES


def read_facts(content: bytes) -> FileFacts | None:
    """The facts of a file, of its original where it is instrumented; None where it is no Python."""
    try:
        with room_for_nesting():
            return lower(parse(decode(content, source_name=""), source_name=""))
    except (InstrumentError, RecursionError, MemoryError, ValueError):
        return None


def read_program(
    paths: Iterable[str], read: Callable[[str], bytes | None], search: SearchPaths, store: FactsStore
) -> Program:
    """The facts of some files, and of the files that their imports lead to.

    A folder beside large packages, as in `site-packages`, leads to thousands of files. So the number of files that are
    read besides those given is limited; nearer ones come first.

    Args:
        paths: the files, absolute.
        read: reads a file; None where it cannot be read.
        search: says where the imports of a file start from.
        store: keeps facts between runs.
    """
    given = list(dict.fromkeys(paths))
    most = len(given) * (1 + _BESIDES_EACH) + _BESIDES
    places = ImportPlaces(search, (os.path.dirname(each) for each in given))  # noqa: PTH120
    program = Program([], [], {}, places)

    def take(path: str) -> int:
        if path not in program.number:
            program.number[path] = len(program.paths)
            program.paths.append(path)
            if len(program.paths) > most:
                program.unread |= 1 << program.number[path]
                program.facts.append(None)
                return program.number[path]
            content = read(path)
            found = None if content is None else _facts_of(original_of(content), store)
            program.facts.append(found)
            for folder in found.added_folders if found is not None else ():
                places.add(os.path.normpath(os.path.join(os.path.dirname(path), folder)))  # noqa: PTH118, PTH120
        return program.number[path]

    for path in given:
        take(path)
    edges: list[set[int]] = []
    index = 0
    while index < len(program.paths):
        found = program.facts[index]
        reached: set[int] = set()
        for dotted in (*found.modules, *found.stars) if found is not None else ():
            if is_told_by_catalogue(dotted):
                continue
            reached.update(take(each.path) for each in places.find(program.paths[index], dotted))
        edges.append(reached)
        index += 1
    program.imports = edges
    program.leads_to = closures(edges)
    return program


def _facts_of(content: bytes, store: FactsStore) -> FileFacts | None:
    digest = digest_of(content)
    found = store.load(digest)
    if found is None:
        found = read_facts(content)
        if found is not None:
            store.store(digest, found)
    return found


def closures(edges: list[set[int]]) -> list[int]:
    """The nodes that each node of a graph leads to, itself included, as sets of bits.

    By strongly connected components (Tarjan, "Depth-first search and linear graph algorithms", 1972).
    """
    count = len(edges)
    index: list[int] = [-1] * count
    low = [0] * count
    is_open = [False] * count
    found = [0] * count
    stack: list[int] = []
    counter = 0
    for root in range(count):
        if index[root] >= 0:
            continue
        work = [(root, iter(edges[root]))]
        index[root] = low[root] = counter
        counter += 1
        stack.append(root)
        is_open[root] = True
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is not None:
                if index[following] < 0:
                    index[following] = low[following] = counter
                    counter += 1
                    stack.append(following)
                    is_open[following] = True
                    work.append((following, iter(edges[following])))
                elif is_open[following]:
                    low[node] = min(low[node], index[following])
                continue
            work.pop()
            if work:
                above = work[-1][0]
                low[above] = min(low[above], low[node])
            if low[node] == index[node]:
                members = stack[stack.index(node) :]
                del stack[-len(members) :]
                _close(members, edges, found, is_open)
    return found


def _close(members: list[int], edges: list[set[int]], found: list[int], is_open: list[bool]) -> None:
    """Note what a strongly connected component leads to, where that is known of all that it leads to."""
    bits = 0
    for member in members:
        is_open[member] = False
        bits |= 1 << member
        for target in edges[member]:
            bits |= found[target]
    for member in members:
        found[member] = bits
