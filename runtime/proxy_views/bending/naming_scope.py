"""Calls of models and of their methods, in which what is computed has names that bends can match."""

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
        model: what is called.
        method: of it; "" if it is the model itself.
        names: of the nodes.
        seen: all names that there were, for messages.
    """

    def __init__(self, model: nn.Module, method: str, names: NodeNames, wanted: list[Bent]) -> None:
        self.model, self.method, self.names, self.wanted = model, method, names, wanted
        self.seen: list[str] = []
        self.qualified = {id(each): name for name, each in model.named_modules()}

    def matches(self, names: Sequence[str]) -> list[Bent]:
        """The bends of a node that has these names."""
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
        """The same, which goes on on its own."""
        return NamingScope(self.model, self.method, self.names.copied(), self.wanted)


class NamedCall(NamedTuple):
    """A call of torch's whose result has names.

    Attributes:
        scopes: where it has them.
        found: the bends of its result.
        written: by identity, the arguments that it may write into, with torch's count of changes.
    """

    scopes: tuple[NamingScope, ...]
    found: list[Bent]
    written: dict[int, int]
