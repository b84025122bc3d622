"""One recorded call of a model and the views of it, as `Proxy.trace` returns them."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, NamedTuple

from proxy_trace.order.execution_order import execution_order
from proxy_views.activations import Activations, Table, Weights
from proxy_views.call_kinds import VALUE
from proxy_views.cut import cut
from proxy_views.errors import (
    BentInsideError,
    CallRaisedError,
    ClosedError,
    InsideTransformError,
    NoFlowError,
    NotCalledError,
    NotProfiledError,
    RecordingFailedError,
    StillRunningError,
    TransformError,
    UnknownNameError,
)
from proxy_views.graph import Built, GraphBuilder, Leaves
from proxy_views.passes.checkpoint_regions import checkpoint_regions
from proxy_views.passes.split_bias import split_bias as split_biases
from proxy_views.places import Place, Places
from proxy_views.recorded_events import events_of
from proxy_views.steps import Frozen, ModuleCall, TorchCall

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from pathlib import Path

    from torch import fx
    from typing_extensions import Self

    from proxy_trace.flow.flow_steps import FlowStep
    from proxy_trace.order.execution_order import ExecutionOrder, LeafRule
    from proxy_views.flow import RecordedFlow
    from proxy_views.places import Frames
    from proxy_views.profile.device import Device
    from proxy_views.profile.flops import Convention
    from proxy_views.profile.profiler import Profiler
    from proxy_views.profile.report import Profile
    from proxy_views.recording import Recording


class FrozenValue(NamedTuple):
    """Something that is constant in a graph, although it might differ for another input.

    Attributes:
        kind: "value" (of a tensor, read by Python), "size" (compared, or converted to a plain number) or "tensor" (one
            that was not an input, parameter, buffer or result).
        what: what was read or compared, or the name of the tensor.
        value: the result; for a tensor, its dtype and shape.
        place: the line, followed by those of its callers; None if there is none outside torch.
    """

    kind: str
    what: str
    value: object
    place: Place | None

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place is not None else ""
        return (
            f"{where}{self.what} gave {self.value!r}" if self.kind != "tensor" else f"{where}{self.what}: {self.value}"
        )


class LiveTrace:
    """The record of one call of a model. It keeps the tensors of the call alive until `close`, or until it is freed."""

    def __init__(
        self,
        recording: Recording,
        call: int,
        leaf_modules: tuple[type, ...] = (),
        flow: RecordedFlow | None = None,
        profiler: Profiler | None = None,
    ) -> None:
        self._recording: Recording | None = recording
        self._flow = flow
        self._profiler = profiler
        self._name = type(recording.model).__name__
        self._call = call
        self._leaf_modules = leaf_modules
        self._built: dict[Leaves, Built] = {}

    def close(self) -> None:
        """Release all tensors. No view can be built afterwards; existing graphs keep working."""
        self._recording = None
        self._built.clear()

    # Views.

    def graph(
        self,
        leaf_modules: bool | Iterable[type | str] = False,
        split_bias: bool = False,
        checkpoint: bool = True,
        start: str | Iterable[str] | None = None,
        stop: str | Iterable[str] | None = None,
    ) -> fx.GraphModule:
        """The call as a graph of torch calls on the model's own parameters. Its results are identical bit for bit.

        Args:
            leaf_modules: which modules are single nodes: none, those of `torch.nn` (True), or those with these types or
                qualified names. Types passed to `Proxy.register_leaf_module` always are, and so are modules that cannot
                be looked into: compiled modules, TorchScript, and blacklisted ones (`Proxy.blacklist`).
            split_bias: whether adding a bias is a separate node.
            checkpoint: whether activation checkpoints become subgraphs, which are recomputed in the backward pass as in
                the model. If not, their calls are ordinary nodes.
            start: names of nodes, or qualified names of modules, which stand for their outputs. The graph takes these
                as inputs and starts there. It still takes any original inputs that are needed after them.
            stop: likewise, what the graph returns.

        Raises:
            NotCalledError: if the model was not called in the block.
            CallRaisedError: if the call ended in an exception.
            InsideTransformError: if the model uses a transform of `torch.func`.
            BentInsideError: if something is bent inside a single node.
            UnknownNameError: if a name in `start` or `stop` does not exist.
            ClosedError: if the trace was closed.
        """
        built = self._fresh(self._leaves(leaf_modules))
        for what, name, is_chosen in built.hidden:
            raise BentInsideError(what, name, is_chosen=is_chosen)
        self._note_profile(built)
        if start is not None or stop is not None:
            cut(built.module.graph, self._resolve(built, start), self._resolve(built, stop))
            built.module.recompile()
        if split_bias:
            split_biases(built.module)
        has_regions = checkpoint and any("checkpoint_region" in node.meta for node in built.module.graph.nodes)
        return checkpoint_regions(built.module) if has_regions else built.module

    def execution_order(self, leaf_rule: LeafRule = "fsdp") -> ExecutionOrder:
        """The modules of the call in execution order, and the parameters in order of first use.

        Args:
            leaf_rule: "fsdp" for FSDP's rule: modules defined by torch.nn are leaves, except `nn.Sequential` and the
                model itself. None to list every call.

        Raises:
            ViewError: as `graph` does.
        """
        return execution_order(events_of(self._recorded()), leaf_rule)

    @property
    def frozen(self) -> list[FrozenValue]:
        """What is constant in the graph although it might differ for another input, in order.

        Raises:
            ViewError: as `graph` does.
        """
        recording, places = self._recorded(), Places()
        found = [
            (each.step, FrozenValue("size", each.what, each.value, _place_of(places, each))) for each in recording.froze
        ]
        for number, step in enumerate(recording.steps):
            if isinstance(step, TorchCall) and step.kind == VALUE:
                name = getattr(step.function, "__name__", "")
                value = step.result if isinstance(step.result, (bool, int, float, complex)) else type(step.result)
                found.append((number, FrozenValue("value", name, value, _place_of(places, step))))
        built = self._standard()
        for constant in built.constants:
            tensor = built.module.get_buffer(constant.name)
            words = f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
            step = recording.steps[min(constant.step, len(recording.steps) - 1)]
            found.append((constant.step, FrozenValue("tensor", constant.name, words, _place_of(places, step))))
        return [each for _, each in sorted(found, key=lambda pair: pair[0])]

    def flow_steps(self) -> list[FlowStep]:
        """The outcomes of the conditions in the call and the iteration counts of its loops, in order of completion.

        Raises:
            NoFlowError: if the block did not record them (`flow=True`).
            ViewError: as `graph` does.
        """
        self._recorded()
        if self._flow is None:
            raise NoFlowError
        return self._flow.steps()

    def activations(self, regex: str = ".*", *, leaf_modules: bool | Iterable[type | str] = False) -> Activations:
        """The computed tensors by name: of nodes and of modules whose full name matches `regex`.

        Nodes have their names from `graph(leaf_modules)`. Modules have their qualified names, followed by "@1" for the
        second call.

        Returns:
            A dictionary. It omits tensors changed in place since; its attribute `overwritten` has their names.

        Raises:
            ViewError: as `graph` does.
        """
        leaves = self._leaves(leaf_modules)
        return Activations.of(self._standard(leaves), re.compile(regex))

    def table(
        self,
        op: str | None = None,
        flt: str | None = None,
        exclude: str | None = None,
        out: str | Path | None = None,
        *,
        leaf_modules: bool | Iterable[type | str] = False,
    ) -> str:
        """The nodes as a table: name, operation, target, type and shape.

        Args:
            op: only nodes of this operation ("call_function").
            flt: only nodes whose full name matches this regular expression.
            exclude: no nodes whose full name matches this one.
            out: a file to which the table is also written.
            leaf_modules: as for `graph`.

        Raises:
            ViewError: as `graph` does.
        """
        return Table.of(self._standard(self._leaves(leaf_modules)), op, flt, exclude).write(out)

    def __str__(self) -> str:
        return self.table()

    def weights(self, regex: str = ".*") -> Weights:
        """The parameters and buffers whose full name matches `regex`, with minimum, maximum, mean and deviation.

        Raises:
            ViewError: as `graph` does.
        """
        return Weights.of(self._recorded(), re.compile(regex))

    def draw(
        self,
        path: str | os.PathLike[str],
        depth: int | None = None,
        *,
        leaf_modules: bool | Iterable[type | str] = False,
    ) -> Path:
        """Draw the graph to a file that ends in .svg (a picture) or .html (a page whose boxes open and close).

        Args:
            path: the file, which is overwritten. A picture needs the extra `draw` and Graphviz.
            depth: how deep boxes of modules are nested at most. Deeper ones are closed.
            leaf_modules: as for `graph`.

        Returns:
            The path.

        Raises:
            DrawingError: if it cannot be drawn.
            ViewError: as `graph` does.
            OSError: if the file cannot be written.
        """
        from proxy_views.drawing.draw import draw  # Imported only if something is drawn.

        return draw(self.graph(leaf_modules), path, depth)

    def profile(self, flops: Convention = "corrected", device: Device | None = None) -> Profile:
        """The cost of the whole block by module and by call: FLOPs, memory and time, in forward and backward passes.

        Args:
            flops: "torch" counts by the formulas of `torch.utils.flop_counter`. "corrected" also counts attention on
                the CPU, and does not overcount the backward pass of grouped convolutions. "siu" counts a multiply-add
                as one, and elementwise operations too.
            device: a `proxy_views.profile.Device`, for which times are computed in addition to the measured ones.

        Raises:
            NotProfiledError: if the block was created without `profile=True`.
            ProfileError: if the block has not ended, or `flops` is not one of these.
        """
        if self._profiler is None:
            raise NotProfiledError
        return self._profiler.profile(flops, device)

    # Data for the views.

    def _recorded(self) -> Recording:
        """The recording of a completed call.

        Raises:
            ViewError: if the call did not complete, or was not recorded.
        """
        recording = self._recording
        if recording is None:
            raise ClosedError
        if isinstance(recording.failure, TransformError):
            places = Places().of(recording.failure.frames)
            raise InsideTransformError(places[0] if places else None)
        if recording.failure is not None:
            raise RecordingFailedError(recording.failure) from recording.failure
        if recording.is_open:
            raise StillRunningError(self._name)
        if not recording.is_done:
            raise NotCalledError(self._name, self._call, recording.calls_seen)
        if recording.raised:
            raise CallRaisedError(self._name, self._call)
        return recording

    def recorded(self) -> tuple[Recording, Built]:
        """The recording and its graph, for other views. Neither may be changed.

        Raises:
            ViewError: as `graph` does.
        """
        return self._recorded(), self._standard()

    def _leaves(self, leaf_modules: bool | Iterable[type | str]) -> Leaves:
        """What is a single node: as `leaf_modules` of a view says, plus the types registered before the block."""
        return Leaves.parse(leaf_modules, self._leaf_modules)

    def _fresh(self, leaves: Leaves) -> Built:
        """A new graph, which the caller may change."""
        return GraphBuilder(self._recorded(), leaves).build()

    def _note_profile(self, built: Built) -> None:
        """Set `meta["profile"]` on the nodes, if the block was profiled and has ended."""
        rows = self._profiler.node_rows() if self._profiler is not None else None
        if rows is None:
            return
        for node in built.module.graph.nodes:
            if node.name in built.made_by:
                stack = [name for name, _ in node.meta["nn_module_stack"].values()]
                target = str(getattr(node.target, "__name__", node.target))
                row = rows.row(node.name, target, stack[-1] if stack else None, built.made_by[node.name])
                if row is not None:
                    # The backward pass of a reentrant checkpoint belongs to the calls that it repeats.
                    is_again = any(node.meta.get("checkpoint_reentrant", ()))
                    node.meta["profile"] = row._replace(backward_flops=None) if is_again else row

    def _standard(self, leaves: Leaves | None = None) -> Built:
        """The graph with these leaves, built once."""
        key = leaves or self._leaves(False)
        self._recorded()
        if key not in self._built:
            self._built[key] = self._fresh(key)
        return self._built[key]

    def _resolve(self, built: Built, names: str | Iterable[str] | None) -> list[fx.Node]:
        if names is None:
            return []
        return [_find(built, name) for name in ((names,) if isinstance(names, str) else names)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _find(built: Built, name: str) -> fx.Node:
    """The node with that name, or the one that computed the output of the module with that qualified name.

    Raises:
        UnknownNameError: if there is none.
    """
    nodes: dict[str, fx.Node] = {node.name: node for node in built.module.graph.nodes}
    for qualified, given in built.outputs.items():
        for count, node in enumerate(given):
            nodes.setdefault(f"{qualified}@{count}" if count else qualified, node)
            plain = qualified.replace(".", "_")
            nodes.setdefault(f"{plain}_{count}" if count else plain, node)
    if name not in nodes:
        raise UnknownNameError(name, difflib.get_close_matches(name, nodes, n=2))
    return nodes[name]


def _place_of(places: Places, step: ModuleCall | TorchCall | Frozen) -> Place | None:
    frames: list[Frames] = [step.frames]
    call = step.parent if isinstance(step, ModuleCall) else step.module_call
    while call is not None:
        frames.append(call.frames)
        call = call.parent
    for each in frames:
        found = places.of(each)
        if found:
            return found[0]
    return None
