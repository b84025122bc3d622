"""Cuts a graph to the part that starts at given nodes, ends at given nodes, or both."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import fx


def cut(graph: fx.Graph, start: Sequence[fx.Node], stop: Sequence[fx.Node]) -> None:
    """Make `graph` take the values of the nodes `start` as inputs, and return the nodes `stop`.

    Inputs that are still needed come after the new ones. A call that changes a tensor in place is kept if the tensor
    is.
    """
    output = next(node for node in graph.nodes if node.op == "output")
    if stop:
        output.args = (stop[0] if len(stop) == 1 else tuple(stop),)
    given: dict[fx.Node, fx.Node] = {}
    first = next(iter(graph.nodes))
    for node in start:
        if node.op == "placeholder":
            continue
        with graph.inserting_before(first):
            given[node] = graph.placeholder(f"{node.name}_given")
        given[node].meta = {key: value for key, value in node.meta.items() if key != "profile"}
    for node, placeholder in given.items():
        node.replace_all_uses_with(placeholder)
    kept = _needed([output, *given.values()], graph.nodes, set(given))
    for node in reversed(list(graph.nodes)):
        if node not in kept:
            graph.erase_node(node)
    for node, placeholder in given.items():
        placeholder.target = placeholder.name = node.name
    graph.lint()


def _needed(wanted: Iterable[fx.Node], nodes: Iterable[fx.Node], given: set[fx.Node]) -> set[fx.Node]:
    """The nodes that `wanted` depends on, and those that may change any of these in place."""
    kept: set[fx.Node] = set()
    waiting = list(wanted)
    without_users = [node for node in nodes if not node.users and node.op not in ("output", "placeholder")]
    while waiting:
        while waiting:
            node = waiting.pop()
            if node not in kept:
                kept.add(node)
                waiting += node.all_input_nodes
        waiting = [node for node in without_users if node not in kept | given and _works_on(node, kept)]
    return kept


def _works_on(node: fx.Node, kept: set[fx.Node]) -> bool:
    """Whether `node`, whose result is unused, takes a tensor that is kept. It may change that tensor."""
    return any(each in kept and "tensor_meta" in each.meta for each in node.all_input_nodes)
