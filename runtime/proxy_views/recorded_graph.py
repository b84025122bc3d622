"""A `torch.fx.GraphModule` that is copied and saved node by node.

`torch.fx` saves a graph as code, and traces that code on loading. This loses the metadata of nodes, and code cannot
name every target of our nodes. When `torch.fx` copies a graph, it also registers everything that the graph refers to.
The subgraph of a checkpoint refers to parameters of the enclosing graph, and must not own them.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from torch import fx
from torch.fx.node import map_aggregate

from proxy_views.targets import portable

if TYPE_CHECKING:
    from collections.abc import Iterable

_GRAPH: Final = "_graph"
_NODES: Final = "_saved_nodes"
_NAME: Final = "_saved_class_name"
_STACK: Final = "nn_module_stack"
_KEPT: Final = (
    *("stack_trace", "tensor_meta", "val", "checkpoint_region", "checkpoint_reentrant", "checkpoint_call"),
    _STACK,
)
"""The metadata of nodes that is saved with them."""


class RecordedGraph(fx.GraphModule):
    """The graph of a recorded call, or of a checkpoint in one."""

    def __deepcopy__(self, memo: dict[int, Any]) -> RecordedGraph:
        copied = _empty()
        memo[id(self)] = copied
        copied.__dict__.update(copy.deepcopy(_without_graph(self), memo))
        copied._take(copy.deepcopy(self.graph, memo), type(self).__name__)
        return copied

    def __reduce__(self) -> tuple[Any, ...]:
        state = {**_without_graph(self), _NODES: _saved(self.graph.nodes), _NAME: type(self).__name__}
        return _empty, (), state

    def __setstate__(self, state: dict[str, Any]) -> None:
        nodes, name = state.pop(_NODES), state.pop(_NAME)
        self.__dict__.update(state)
        self._take(_loaded(nodes), name)

    def _take(self, graph: fx.Graph, name: str) -> None:
        type(self).__name__ = name  # `torch.fx` creates a class for each instance.
        self.graph = graph


def _empty() -> RecordedGraph:
    made: RecordedGraph = RecordedGraph.__new__(RecordedGraph)
    return made


def _without_graph(module: fx.GraphModule) -> dict[str, Any]:
    return {key: value for key, value in module.__dict__.items() if key != _GRAPH}


class _SavedNode(NamedTuple):
    op: str
    name: str
    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    type: Any
    meta: dict[str, Any]


class _NodeName:
    """A placeholder for the node with this name."""

    def __init__(self, name: str) -> None:
        self.name = name


def _saved(nodes: Iterable[fx.Node]) -> list[_SavedNode]:
    found = []
    for node in nodes:
        args: Any = map_aggregate(node.args, _save)
        kwargs: Any = map_aggregate(node.kwargs, _save)
        meta: dict[str, Any] = {key: _saved_meta(key, node.meta[key]) for key in _KEPT if key in node.meta}
        found.append(_SavedNode(node.op, node.name, portable(node.target), args, kwargs, node.type, meta))
    return found


def _save(value: Any) -> Any:
    return _NodeName(value.name) if isinstance(value, fx.Node) else portable(value)


def _saved_meta(key: str, value: Any) -> Any:
    """Metadata in a form that can be pickled. A local class, which pickle cannot find, is saved as its name."""
    if key != _STACK:
        return map_aggregate(value, portable)
    return {call: (name, _saved_type(kind)) for call, (name, kind) in value.items()}


def _saved_type(kind: Any) -> Any:
    if isinstance(kind, type) and "<locals>" in kind.__qualname__:
        return f"{kind.__module__}.{kind.__qualname__}"
    return kind


def _loaded(saved: list[_SavedNode]) -> fx.Graph:
    graph = fx.Graph()
    known: dict[str, fx.Node] = {}

    def load(value: Any) -> Any:
        return known[value.name] if isinstance(value, _NodeName) else value

    for each in saved:
        args: Any = map_aggregate(each.args, load)
        kwargs: Any = map_aggregate(each.kwargs, load)
        node = graph.create_node(each.op, each.target, args, kwargs, each.name, each.type)
        node.meta.update(each.meta)
        known[each.name] = node
    return graph
