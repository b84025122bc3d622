"""The part of an autograd graph that is nearest to a loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_NODES: Final = 4096


class LossGraph:
    """The nodes of an autograd graph, those nearest to the loss first; in a large graph, only these.

    Attributes:
        root: the node that computed the loss.
    """

    def __init__(self, root: Any) -> None:
        self.root = root
        self._users: dict[Any, list[Any]] = {root: []}
        self._named: dict[str, list[Any]] = {}
        pending = [root]
        for node in pending:
            self._named.setdefault(node.name(), []).append(node)
            for following, _ in node.next_functions:
                if following is None:
                    continue
                if following in self._users:
                    self._users[following].append(node)
                elif len(pending) < _MOST_NODES:
                    self._users[following] = [node]
                    pending.append(following)
        self._places = {node: place for place, node in enumerate(pending)}

    def named(self, names: Iterable[str]) -> list[Any]:
        """The nodes that have one of some names, in their order."""
        found = [node for name in names for node in self._named.get(name, ())]
        return sorted(found, key=self._places.__getitem__)

    @property
    def names(self) -> Iterable[str]:
        """The names of the nodes, each once."""
        return self._named.keys()

    def __contains__(self, node: Any) -> bool:
        return node in self._places

    def users(self, node: Any) -> list[Any]:
        """The nodes that use the outputs of a node, once for each use; [] if the node is not among these."""
        return self._users.get(node, [])
