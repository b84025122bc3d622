"""Matches the modules, parameters and buffers of two runs: by name, or by position if they were renamed."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from proxy_trace.reading.names import without_cycles

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy_trace.reading.names import Names
    from proxy_wrapper.events import Module


class Numbers(dict[int, int]):
    """A mapping from ids in one file to numbers shared by both files. An id without a definition is its own number."""

    def __missing__(self, id_: int) -> int:
        return -id_


class Correspondence(NamedTuple):
    """How the ids of two files correspond.

    Attributes:
        modules: for each file, the numbers of its modules. Matching modules have the same number.
        tensors: the same for parameters and buffers.
        renamed: the topmost modules matched under different names.
        only_in: for each file, the topmost modules that the other lacks.
        first_names: by name of a module, parameter or buffer in the second file, its name in the first, if that
            differs.
    """

    modules: tuple[Numbers, ...]
    tensors: tuple[Numbers, ...]
    renamed: list[tuple[str, str]]
    only_in: tuple[list[str], list[str]]
    first_names: dict[str, str]


def find_correspondence(first: Names, second: Names) -> Correspondence:
    """Match modules and tensors by name, and the rest by position: same type and size below the same module."""
    trees = _Tree(first), _Tree(second)
    second_names = _match(*trees)  # By name in the first file.
    first_names = {other: name for name, other in second_names.items()}
    renamed_tensors = _renamed_tensors(first, second, first_names)
    modules = _numbered(
        [(id_, module.name) for id_, module in first.modules.items()],
        [(id_, first_names.get(module.name, module.name)) for id_, module in second.modules.items()],
    )
    tensors = _numbered(
        [(id_, tensor.name) for id_, tensor in first.tensors.items()],
        [(id_, renamed_tensors.get(tensor.name, tensor.name)) for id_, tensor in second.tensors.items()],
    )
    changed = {name: there for name, there in first_names.items() if name != there}
    return Correspondence(
        modules,
        tensors,
        renamed=_topmost_renamed(changed, trees[1]),
        only_in=(
            _topmost([name for name in trees[0].by_name if name not in second_names], trees[0]),
            _topmost([name for name in trees[1].by_name if name not in first_names], trees[1]),
        ),
        first_names={**changed, **renamed_tensors},
    )


def _numbered(*of_files: Iterable[tuple[int, str]]) -> tuple[Numbers, ...]:
    """Assign a number to each id of each file. Ids with the same name get the same number."""
    numbers: dict[str, int] = {}
    return tuple(
        Numbers({0: 0, **{id_: numbers.setdefault(name, len(numbers) + 1) for id_, name in of_file}})
        for of_file in of_files
    )


class _Tree:
    """The modules of a file by name, and their submodules."""

    def __init__(self, names: Names) -> None:
        parents = without_cycles(
            {id_: each.parent if each.parent in names.modules else 0 for id_, each in names.modules.items()}
        )
        self.by_name: dict[str, Module] = {module.name: module for module in names.modules.values()}
        self.parents = {
            module.name: names.modules[parents[id_]].name if parents[id_] else ""
            for id_, module in names.modules.items()
        }
        self.children: dict[str, list[Module]] = defaultdict(list)
        for name, module in self.by_name.items():
            above = self.parents[name]
            self.children["" if above == name else above].append(module)


def _match(first: _Tree, second: _Tree) -> dict[str, str]:
    """The names of matching modules in the second file, by name in the first."""
    matched = {name: name for name in first.by_name if name in second.by_name}
    taken = set(matched)
    pending = [("", ""), *matched.items()]
    while pending:
        above, other_above = pending.pop()
        mine = [each for each in first.children.get(above, ()) if each.name not in matched]
        others = [each for each in second.children.get(other_above, ()) if each.name not in taken]
        for one, other in _pairs(mine, others):
            matched[one.name] = other.name
            taken.add(other.name)
            pending.append((one.name, other.name))
    return matched


def _pairs(mine: Sequence[Module], others: Sequence[Module]) -> Iterable[tuple[Module, Module]]:
    """Pair the submodules of two matching modules: by last name, then in order by type and size."""
    by_last = {_last(each.name): each for each in others}
    left: list[Module] = []
    used: set[str] = set()
    for each in mine:
        other = by_last.get(_last(each.name))
        if other is not None and other.type == each.type and other.name not in used:
            used.add(other.name)
            yield each, other
        else:
            left.append(each)
    alike: dict[tuple[str, int], list[Module]] = defaultdict(list)
    for other in reversed(others):
        if other.name not in used:
            alike[other.type, other.parameters].append(other)
    for each in left:
        candidates = alike.get((each.type, each.parameters))
        if candidates:
            yield each, candidates.pop()


def _renamed_tensors(first: Names, second: Names, first_names: dict[str, str]) -> dict[str, str]:
    """By name of a parameter or buffer in the second file, its name in the first, if that differs."""
    there = {tensor.name for tensor in first.tensors.values()}
    found = {}
    for tensor in second.tensors.values():
        module = second.modules.get(tensor.module)
        if module is None or tensor.name in there or not tensor.name.startswith(f"{module.name}."):
            continue
        name = first_names.get(module.name, module.name) + tensor.name[len(module.name) :]
        if name in there:
            found[tensor.name] = name
    return found


def _topmost_renamed(changed: dict[str, str], second: _Tree) -> list[tuple[str, str]]:
    """The pairs of names that differ in more than the name of the enclosing module."""
    return [
        (there, name)
        for name, there in changed.items()
        if _last(name) != _last(there) or changed.get(second.parents[name]) is None
    ]


def _topmost(names: Sequence[str], tree: _Tree) -> list[str]:
    every = set(names)
    return [name for name in names if tree.parents[name] not in every]


def _last(name: str) -> str:
    return name.rpartition(".")[2]
