"""The content of a drawing: calls in boxes, one box per module call, and the edges between them."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import fx
from torch.fx.passes.shape_prop import TensorMetadata
from torch.utils.checkpoint import checkpoint

from proxy_views.passes.outline import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Drawn(NamedTuple):
    """A drawn node. It holds no tensor.

    Attributes:
        id: its number.
        name: the name of its node.
        does: what it calls; "" if the name shows it, and for inputs and outputs.
        reads: the parameters and buffers that it reads, by name within its module.
        gives: its result, in words; "" if unknown.
        kind: "placeholder", "output", or "call".
    """

    id: int
    name: str
    does: str
    reads: tuple[str, ...]
    gives: str
    kind: str


class Box:
    """A call of a module or a recomputed region, and what runs in it, in order.

    Attributes:
        id: its number, from the same sequence as the nodes'.
        name: its title: the last part of the module's name.
        type: the class of the module.
        depth: the number of boxes around it.
        items: its content.
    """

    def __init__(self, id_: int, name: str, type_name: str, depth: int) -> None:
        self.id = id_
        self.name = name
        self.type = type_name
        self.depth = depth
        self.items: list[Box | Drawn] = []


class Edge(NamedTuple):
    """A value passed from one node to another; `label` describes it."""

    source: int
    target: int
    label: str


class Picture(NamedTuple):
    """A graph to be drawn: its boxes and edges."""

    root: Box
    edges: list[Edge]


class _Part(NamedTuple):
    """A box on the path from the model to a node."""

    key: str
    name: str
    type: str


def picture_of(gm: fx.GraphModule) -> Picture:
    """The content of a drawing of `gm`; sub-graphs become boxes.

    Boxes come from `node.meta["nn_module_stack"]`, labels of edges from `node.meta["tensor_meta"]`. Without these,
    there are no boxes or labels.
    """
    builder = _Builder(type(gm).__name__)
    builder.add_graph(gm, None, ())
    return Picture(builder.root, list(builder.edges.values()))


class _Builder:
    """Walks through a graph and the graphs inside it."""

    def __init__(self, name: str) -> None:
        self.root = Box(0, name, "", 0)
        self.edges: dict[tuple[int, int], Edge] = {}
        self._boxes: dict[tuple[str, ...], Box] = {(): self.root}
        self._next = 1

    def add_graph(
        self, gm: fx.GraphModule, inputs: list[tuple[int, ...]] | None, insertions: tuple[tuple[int, _Part], ...]
    ) -> Any:
        """Draw a graph.

        Args:
            gm: the graph.
            inputs: the sources of its inputs, if it is inside another graph; None for the outermost.
            insertions: the boxes around it that are not modules, each with its depth in the stack of modules.

        Returns:
            The sources of its output: numbers of nodes, in the same tuples.
        """
        known: dict[fx.Node, Any] = {}
        given = iter(inputs or ())
        for node in gm.graph.nodes:
            if node.op == "placeholder" and inputs is not None:
                known[node] = next(given, ())
            elif node.op == "output" and inputs is not None:
                return fx.node.map_arg(node.args[0], lambda each: known.get(each, ()))
            elif node.op != "get_attr":
                known[node] = self._add_node(gm, node, known, insertions)
        return ()

    def _add_node(
        self, gm: fx.GraphModule, node: fx.Node, known: dict[fx.Node, Any], insertions: tuple[tuple[int, _Part], ...]
    ) -> Any:
        sub = _sub_graph(gm, node)
        if sub is not None:
            depth = _common_depth([_stack(each) for each in _all_calls(sub.module)])
            sources = [tuple(_ids(known.get(each, ()))) for each in sub.arguments]
            return self.add_graph(sub.module, sources, (*insertions, (depth, _Part(sub.name, sub.name, ""))))
        picked = _picked_from(node, known)
        if picked is not None:
            return picked
        path = _path(node, insertions)
        drawn = Drawn(self._number(), node.name, _does(gm, node), _reads(node, path), _gives(node), _kind(node))
        self._box(path).items.append(drawn)
        for each in node.all_input_nodes:
            for source in _ids(known.get(each, ())):
                self.edges.setdefault((source, drawn.id), Edge(source, drawn.id, _gives(each)))
        return (drawn.id,)

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    def _box(self, path: tuple[_Part, ...]) -> Box:
        keys = tuple(part.key for part in path)
        box = self._boxes.get(keys)
        if box is None:
            above = self._box(path[:-1])
            name = path[-1].name
            for part in reversed(path[:-1]):
                if part.name and name.startswith(f"{part.name}."):
                    name = name[len(part.name) + 1 :]
                    break
            box = self._boxes[keys] = Box(self._number(), name, path[-1].type, len(path))
            above.items.append(box)
        return box


class _SubGraph(NamedTuple):
    """A graph that a node calls, its name, and the nodes of its arguments."""

    name: str
    module: fx.GraphModule
    arguments: list[fx.Node]


def _sub_graph(gm: fx.GraphModule, node: fx.Node) -> _SubGraph | None:
    """The graph that a node calls; None if it calls something else, or passes other values than nodes."""
    arguments = list(node.args)
    if node.op == "call_function" and node.target is checkpoint and isinstance(arguments[0], fx.Node):
        name = str(arguments.pop(0).target)  # type: ignore[union-attr]
    elif node.op == "call_module":
        name = str(node.target)
    else:
        return None
    try:
        module = gm.get_submodule(name)
    except AttributeError:
        return None
    given = [each for each in arguments if isinstance(each, fx.Node)]
    if not isinstance(module, fx.GraphModule) or len(given) < len(arguments):
        return None
    return _SubGraph(name, module, given)


def _all_calls(gm: fx.GraphModule) -> Iterator[fx.Node]:
    for node in gm.graph.nodes:
        sub = _sub_graph(gm, node)
        if sub is not None:
            yield from _all_calls(sub.module)
        elif node.op.startswith("call"):
            yield node


def _ids(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _ids(each)


def _picked_from(node: fx.Node, known: Mapping[fx.Node, Any]) -> Any:
    """The source of the result that a node selects from several; None if the node does something else.

    Nothing is computed there, so the node is not drawn: its edges begin at the source.
    """
    source = node.args[0] if node.target is operator.getitem else None
    if not isinstance(source, fx.Node):
        return None
    given, key = known.get(source, ()), node.args[1]
    if any(not isinstance(each, int) for each in given):  # The output of a graph: the source of each part is known.
        return given[key] if isinstance(key, int) and -len(given) <= key < len(given) else given
    meta = source.meta.get("tensor_meta")
    return given if isinstance(meta, (tuple, list)) and not isinstance(meta, TensorMetadata) else None


def _stack(node: fx.Node) -> tuple[_Part, ...]:
    """The modules around a node, outermost first, without the model itself."""
    stack: Mapping[str, Any] = node.meta.get("nn_module_stack") or {}
    parts = [_Part(key, name, getattr(kind, "__name__", str(kind))) for key, (name, kind) in stack.items() if name]
    if node.op == "call_module" and parts and parts[-1].name == node.target:
        parts.pop()  # The node is that module itself.
    return tuple(parts)


def _path(node: fx.Node, insertions: tuple[tuple[int, _Part], ...]) -> tuple[_Part, ...]:
    stack = _stack(node)
    path: list[_Part] = []
    begun = 0
    for depth, part in insertions:
        path += [*stack[begun:depth], part]
        begun = depth
    return (*path, *stack[begun:])


def _common_depth(stacks: list[tuple[_Part, ...]]) -> int:
    """The number of modules around all of the nodes."""
    depth = 0
    for parts in zip(*stacks, strict=False):
        if len({part.key for part in parts}) > 1:
            break
        depth += 1
    return depth


def _kind(node: fx.Node) -> str:
    return node.op if node.op in ("placeholder", "output") else "call"


def _does(gm: fx.GraphModule, node: fx.Node) -> str:
    """What a node calls, in words."""
    if node.op in ("placeholder", "output"):
        return ""
    if node.op == "call_method":
        words = str(node.target)
    elif node.op == "call_module":
        words = type(gm.get_submodule(str(node.target))).__name__
    elif node.target is getattr:
        words = f".{node.args[1]}"
    else:
        words = str(getattr(node.target, "__name__", type(node.target).__name__))
    return "" if node.name.startswith(words) else words


def _reads(node: fx.Node, path: tuple[_Part, ...]) -> tuple[str, ...]:
    """The names that a node reads, relative to its module."""
    read = (str(each.target) for each in node.all_input_nodes if each.op == "get_attr")
    targets = (target.removeprefix(f"{ROOT}.") for target in read)
    around = next((part.name for part in reversed(path) if part.type), "")
    return tuple(dict.fromkeys(target.removeprefix(f"{around}.") if around else target for target in targets))


def _gives(node: fx.Node) -> str:
    """The result of a node, as described in traces: "float32[2, 3]"."""
    meta = node.meta.get("tensor_meta")
    if isinstance(meta, TensorMetadata):
        return _tensor(meta)
    if isinstance(meta, (tuple, list)):
        return ", ".join(_tensor(each) for each in _flat(meta))
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{[int(size) for size in value.shape]}"
    return str(value) if isinstance(value, (int, float)) else str(list(value)) if isinstance(value, torch.Size) else ""


def _flat(metas: Iterable[Any]) -> Iterator[TensorMetadata]:
    for each in metas:
        if isinstance(each, TensorMetadata):
            yield each
        elif isinstance(each, (tuple, list)):
            yield from _flat(each)


def _tensor(meta: TensorMetadata) -> str:
    return f"{str(meta.dtype).removeprefix('torch.')}{[int(size) for size in meta.shape]}"
