"""Calls of models and of their methods, inside which computed values have names that bends can match."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from proxy_views.bending.bends import Bent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import nn

    from proxy_views.bending.node_names import NodeNames


class NamingScope:
    """A call of a model, or of one of its methods, in which nodes have names.

    Attributes:
        model: the model.
        method: the called method; "" for the model itself.
        names: the names of the nodes.
        seen: all names that occurred, for messages.
    """

    def __init__(self, model: nn.Module, method: str, names: NodeNames, wanted: list[Bent]) -> None:
        self.model, self.method, self.names, self.wanted = model, method, names, wanted
        self.seen: list[str] = []
        self.qualified = {id(each): name for name, each in model.named_modules()}

    def matches(self, names: Sequence[str]) -> list[Bent]:
        """The bends that match a node with these names."""
        self.seen += names
        found = []
        for bend, target, _ in self.wanted:
            assert target.pattern is not None
            matching = [name for name in names if target.pattern.fullmatch(name)]
            if matching:
                bend.met.add(target.text)
                found.append(Bent(bend, target, matching[0]))
        return found

    def copied(self) -> NamingScope:
        """A copy that continues independently."""
        return NamingScope(self.model, self.method, self.names.copied(), self.wanted)


class NamedCall(NamedTuple):
    """A torch call whose result has names.

    Attributes:
        scopes: the scopes in which it has them.
        found: the bends of its result.
        written: the arguments that it may write into, by `id`, with their version counts.
    """

    scopes: tuple[NamingScope, ...]
    found: list[Bent]
    written: dict[int, int]
