"""The modules of a process as a tree, whatever the trace says about their parents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_trace.reading.names import without_cycles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from proxy_trace.process.process_summary import ModuleSummary


class ModuleTree:
    """The tree of modules.

    A module whose parent is missing from the trace, or lies below the module itself, counts as a root.
    """

    def __init__(self, modules: Sequence[ModuleSummary]) -> None:
        self._modules = {module.id: module for module in modules}
        known = self._modules.keys()
        self._parents = without_cycles({each.id: each.parent if each.parent in known else 0 for each in modules})
        self._children: dict[int, list[ModuleSummary]] = {}
        for module in modules:
            self._children.setdefault(self._parents[module.id], []).append(module)

    @property
    def roots(self) -> list[ModuleSummary]:
        """The modules without a parent."""
        return self._children.get(0, [])

    def children(self, module: ModuleSummary) -> list[ModuleSummary]:
        """The modules directly below one."""
        return self._children.get(module.id, [])

    def is_root(self, module: ModuleSummary) -> bool:
        """Whether a module has no parent."""
        return not self._parents[module.id]

    def upwards(self, id_: int) -> Iterator[ModuleSummary]:
        """A module and its ancestors, innermost first; nothing for an unknown id."""
        while id_ in self._modules:
            yield self._modules[id_]
            id_ = self._parents[id_]

    def root_of(self, id_: int) -> int:
        """The id of the root above a module; 0 for an unknown id."""
        root = 0
        for module in self.upwards(id_):
            root = module.id
        return root

    def with_those_above(self, names: Iterable[str]) -> set[int]:
        """The ids of the modules with these names, and of their ancestors."""
        wanted = set(names)
        found: set[int] = set()
        for module in self._modules.values():
            if module.name in wanted:
                for each in self.upwards(module.id):
                    if each.id in found:
                        break
                    found.add(each.id)
        return found

    def walk(self) -> Iterator[tuple[ModuleSummary, int]]:
        """The modules with their depth, each before those below it."""
        pending = [(module, 0) for module in reversed(self.roots)]
        while pending:
            module, depth = pending.pop()
            yield module, depth
            pending += [(child, depth + 1) for child in reversed(self.children(module))]

    def size(self, module: ModuleSummary) -> int:
        """The number of modules in a subtree, without removed ones."""
        count, pending = 0, [module]
        while pending:
            each = pending.pop()
            if not each.removed:
                count += 1
                pending += self.children(each)
        return count
