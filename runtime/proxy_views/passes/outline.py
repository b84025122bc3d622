"""Moves nodes of a graph into sub-graphs that the backward pass recomputes."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import fx, nn
from torch.fx.passes.shape_prop import TensorMetadata
from torch.utils.checkpoint import checkpoint

from proxy_views.recorded_graph import RecordedGraph
from proxy_wrapper.errors import ProxyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Path = tuple[int, ...]
"""The path of a region: its number, preceded by the numbers of the regions around it."""

REGION: Final = "checkpoint_region"
REENTRANT: Final = "checkpoint_reentrant"
CALL: Final = "checkpoint_call"
"""The function that calls the checkpoint of each region around a node, if not all are called by `checkpoint`."""

ROOT: Final = "_root_state"
_OF_PLACE: Final = ("nn_module_stack", "stack_trace")
_OF_VALUE: Final = ("tensor_meta", "val")
_IN_PLACE: Final = frozenset(
    getattr(operator, name)
    for name in ("setitem", "delitem", "iadd", "isub", "imul", "imatmul", "itruediv", "ifloordiv", "imod", "ipow")
) | {operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift, setattr}


class RegionError(ProxyError, ValueError):
    """A region that cannot be moved out of its graph."""


def outline(
    gm: fx.GraphModule, regions: Mapping[Path, Iterable[str]], *, use_reentrant: bool = False
) -> fx.GraphModule:
    """Turn sets of nodes into activation checkpoints, whether or not the program has any. Changes and returns `gm`.

    Args:
        gm: the graph.
        regions: the names of the nodes of each region. `(0,)` becomes `checkpoint_0`, a sub-`GraphModule` that
            `torch.utils.checkpoint.checkpoint` calls; `(0, 1)` becomes `checkpoint_0_1` within it. Inputs and outputs
            are found automatically. Other nodes between those of a region run before or after it.
        use_reentrant: the kind of checkpoint.

    Raises:
        RegionError: if there is no node of that name, if a node is in two regions, or if a node between those of a
            region both depends on the region and is used by it.
    """
    nodes = {node.name: node for node in gm.graph.nodes if node.op not in ("placeholder", "output")}
    paths: dict[fx.Node, Path] = {}
    for path, names in regions.items():
        for name in names:
            if name not in nodes:
                raise RegionError(f"the graph has no node '{name}' that could be in region {path}.")
            known = paths.get(nodes[name], ())
            if known[: len(path)] != path[: len(known)]:
                raise RegionError(f"node '{name}' is in region {known} and in region {path}.")
            paths[nodes[name]] = max(known, path, key=len)
    for node, path in paths.items():
        node.meta[REGION] = path
        node.meta[REENTRANT] = (use_reentrant,) * len(path)
    outline_nodes(gm, paths)
    return gm


def outline_nodes(gm: fx.GraphModule, paths: Mapping[fx.Node, Path], depth: int = 0) -> None:
    """Move nodes of `gm` into the sub-graphs of their regions; the parent regions are `depth` deep.

    Raises:
        RegionError: if a region cannot be moved out.
    """
    regions: dict[Path, list[fx.Node]] = {}
    for node in gm.graph.nodes:
        path = paths.get(node, ())
        if len(path) > depth:
            regions.setdefault(path[: depth + 1], []).append(node)
    for path, nodes in regions.items():
        members = [node for node in nodes if node.op != "get_attr"]
        if not members:
            continue
        region = _Region(gm, path, members)
        region.gather()
        copies = region.move_out()
        if copies is not None:
            inner = {copy: paths[node] for node, copy in copies.items()}
            outline_nodes(region.sub, inner, depth + 1)
    gm.graph.lint()
    gm.recompile()


class RootState:
    """The parameters and buffers registered directly on a graph's outermost module, always as they are now."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module

    def __getattr__(self, name: str) -> torch.Tensor:
        module = self.__dict__.get("_module")
        for registered in () if module is None else (module._parameters, module._buffers):
            if name in registered:
                found: torch.Tensor = registered[name]
                return found
        raise AttributeError(name)


class _Region:
    """The nodes of a region that is being moved into a sub-graph.

    Nodes that read state by name are copied into the sub-graph, as a checkpoint's function reads the parameters of its
    model. Passed as arguments they would be inputs, which a reentrant checkpoint treats differently.
    """

    def __init__(self, gm: fx.GraphModule, path: Path, members: list[fx.Node]) -> None:
        self._gm = gm
        self._path = path
        self._members = dict.fromkeys(members)
        self.sub = RecordedGraph(nn.Module(), fx.Graph(), "_".join(("checkpoint", *map(str, path))))

    def gather(self) -> None:
        """Move the nodes between the members before or after them.

        Raises:
            RegionError: if a node would have to be at both places, or if moving it could reorder in-place changes.
        """
        self._pull_selections()
        between, dependents = self._between()
        first = next(iter(self._members))
        for node in dependents:
            taken = [user for user in node.users if user in self._members]
            if taken:
                raise RegionError(
                    f"region {self._path} cannot be moved out: '{node.name}' is not in it, depends on the region, and "
                    f"is used by '{taken[0].name}' of the region. Add it to the region."
                )
        if any(not _only_selects(node) for node in (*between, *dependents)):
            for node in (*between, *dependents, *self._members):
                if _changes_in_place(node):
                    raise RegionError(
                        f"region {self._path} cannot be moved out: other nodes run between its nodes, and "
                        f"'{node.name}' changes a tensor in place, so their order matters. Add them to the region."
                    )
        for node in between:
            first.prepend(node)

    def _pull_selections(self) -> None:
        """Move nodes that only select a part of a member's result directly after that member."""
        for node in reversed(self._members):  # Reversed, to keep the order of several.
            sources = node.all_input_nodes
            if _only_selects(node) and len(sources) == 1 and sources[0] in self._members and not _is_tensor(sources[0]):
                sources[0].append(node)
        self._members = {node: None for node in self._gm.graph.nodes if node in self._members}

    def _between(self) -> tuple[list[fx.Node], list[fx.Node]]:
        """The other nodes between the members: those independent of the members, and those that depend on them."""
        free: list[fx.Node] = []
        dependents: dict[fx.Node, None] = {}
        node, last = next(iter(self._members)), next(reversed(self._members))
        while node is not last:
            node = node.next
            if node not in self._members:
                if any(each in self._members or each in dependents for each in node.all_input_nodes):
                    dependents[node] = None
                else:
                    free.append(node)
        return free, list(dependents)

    def move_out(self) -> dict[fx.Node, fx.Node] | None:
        """Replace the members by a call of the sub-graph.

        Returns:
            The copy of each member; None if nothing uses their results, and they have stayed in place.
        """
        outputs = [node for node in self._members if any(user not in self._members for user in node.users)]
        if not outputs:
            return None
        graph = fx.Graph()
        copies, inputs = self._copy_into(graph)
        graph.output(copies[outputs[0]] if len(outputs) == 1 else tuple(copies[node] for node in outputs))
        self.sub.training = self._gm.training
        self.sub.graph = graph
        self._call(inputs, outputs)
        for node in reversed(self._members):
            self._gm.graph.erase_node(node)
        for node in [each for each in self._gm.graph.nodes if each.op == "get_attr" and not each.users]:
            self._gm.graph.erase_node(node)
        return {node: copies[node] for node in self._members}

    def _copy_into(self, graph: fx.Graph) -> tuple[dict[fx.Node, fx.Node], list[fx.Node]]:
        """Copy the members. Their inputs become placeholders, which are returned too; reads by name are copied."""
        taken = dict.fromkeys(each for node in self._members for each in node.all_input_nodes)
        outside = [node for node in taken if node not in self._members]
        inputs = [node for node in outside if node.op != "get_attr"]
        copies: dict[fx.Node, fx.Node] = {}
        for node in inputs:
            copies[node] = graph.placeholder(node.name)
            copies[node].meta.update(node.meta)
        for node in outside:
            if node not in copies:
                copies[node] = graph.node_copy(node)
                copies[node].target = self._lend(str(node.target))
        for node in self._members:
            copies[node] = graph.node_copy(node, copies.__getitem__)
            if node.op == "call_module":
                self._lend(str(node.target))
        return copies, inputs

    def _lend(self, target: str) -> str:
        """Let the sub-graph read what the graph has under the name `target`; returns the name to use.

        Nothing is registered in the sub-graph, so the state has one name in the graph. Later changes to it, as when the
        graph moves to another device, are visible here.
        """
        key = target.partition(".")[0]
        own = self._gm
        if key in own._parameters or key in own._buffers:
            self.sub.__dict__.setdefault(ROOT, RootState(own))
            return f"{ROOT}.{target}"
        self.sub.__dict__[key] = getattr(own, key)
        return target

    def _call(self, inputs: list[fx.Node], outputs: list[fx.Node]) -> None:
        graph, first = self._gm.graph, next(iter(self._members))
        name = _free_name(self._gm, "_".join(("checkpoint", *map(str, self._path))))
        self._gm.add_submodule(name, self.sub)
        reentrant = first.meta.get(REENTRANT, ())
        calls = first.meta.get(CALL, ())
        depth = len(self._path) - 1
        is_reentrant = bool(reentrant[depth : depth + 1] == (True,))
        around: dict[str, Any] = {key: first.meta[key] for key in _OF_PLACE if key in first.meta}
        if depth:
            around |= {REGION: self._path[:-1], REENTRANT: reentrant[:depth]}
            around |= {CALL: calls[:depth]} if calls else {}
        with graph.inserting_before(first):
            function = graph.get_attr(name)
            call = graph.call_function(
                calls[depth] if calls else checkpoint, (function, *inputs), {"use_reentrant": is_reentrant}
            )
            function.meta.update(around)
            call.meta.update(around)
            if len(outputs) == 1:
                results = [call]
            else:
                results = [graph.call_function(operator.getitem, (call, number)) for number in range(len(outputs))]
        for node, result in zip(outputs, results, strict=True):
            result.meta.update(around)
            result.meta.update({key: node.meta[key] for key in _OF_VALUE if key in node.meta})
            node.replace_all_uses_with(result, delete_user_cb=lambda user: user not in self._members)


def _free_name(gm: fx.GraphModule, name: str) -> str:
    while hasattr(gm, name):
        name += "_"
    return name


def _is_tensor(node: fx.Node) -> bool:
    """Whether a node's result is a tensor, as far as known. Parts of a tensor are computed, and keep their places."""
    meta = node.meta.get("tensor_meta")
    return isinstance(meta, TensorMetadata) or (meta is None and "val" not in node.meta)


def _only_selects(node: fx.Node) -> bool:
    """Whether a node computes nothing: it reads something by name, or selects a part of another result."""
    return node.op == "get_attr" or (node.op == "call_function" and node.target in (operator.getitem, getattr))


def _changes_in_place(node: fx.Node) -> bool:
    """Whether a node may change an input in place, by torch's naming rules."""
    if node.op not in ("call_function", "call_method"):
        return False
    if node.target in _IN_PLACE or "out" in node.kwargs or node.kwargs.get("inplace") is True:
        return True
    name = node.target if isinstance(node.target, str) else str(getattr(node.target, "__name__", ""))
    return name.endswith("_") and not name.endswith("__")
