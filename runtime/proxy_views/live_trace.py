"""One call of a model, seen as it happened, and the views of it: what `Proxy.trace` gives."""

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
    """Something that is fixed in a graph, although another input might have made it something else.

    Attributes:
        kind: "value" (of a tensor, read by Python), "size" (compared, or made a plain number) or "tensor" (one that was
            no input, parameter, buffer or result).
        what: what was read or compared; the name of the tensor.
        value: what came of it; of a tensor its dtype and shape.
        place: the line, and after it those that led there; None if there is none outside of torch.
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
    """What one call of a model did. It keeps the tensors of the call alive until `close`, or its own end."""

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
        """Let go of all tensors. No view can be made afterwards; graphs that were made go on to work."""
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
        """The call as a graph of torch's calls, on the model's own parameters; it computes the same to the bit.

        Args:
            leaf_modules: which modules are one node: none, those of `torch.nn` (True), or those of these types or
                qualified names. Those of `Proxy.register_leaf_module` always are, and so is what cannot be looked
                into: compiled modules, TorchScript, and those that take another path when somebody looks
                (`Proxy.blacklist`).
            split_bias: whether a bias is added by a node of its own.
            checkpoint: whether activation checkpoints become graphs of their own, which are recomputed in the backward
                pass as in the model. If not, their calls are nodes like all others.
            start: names of nodes, or qualified names of modules whose outputs are meant: the graph takes these in place
                of the inputs, and computes on from there. It still takes those inputs that reach around them.
            stop: in the same way, what the graph gives back.

        Raises:
            NotCalledError: if the model was not called in the block.
            CallRaisedError: if the call ended in an exception.
            InsideTransformError: if the model uses a transform of `torch.func`.
            BentInsideError: if something is bent inside of what is one node.
            UnknownNameError: if `start` or `stop` names nothing.
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
        """The modules of the call in the order in which they ran, and the parameters in that of their first use.

        Args:
            leaf_rule: "fsdp" for FSDP's rule: a module that torch.nn defines is one thing, but for `nn.Sequential` and
                the model itself. None for every call.

        Raises:
            ViewError: as `graph` does.
        """
        return execution_order(events_of(self._recorded()), leaf_rule)

    @property
    def frozen(self) -> list[FrozenValue]:
        """What is fixed in the graph although another input might have made it something else, in order.

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
        """How the tests in the call came out, and how often its loops ran, in that order: a loop where it ended.

        Raises:
            NoFlowError: if the block was not asked for them (`flow=True`).
            ViewError: as `graph` does.
        """
        self._recorded()
        if self._flow is None:
            raise NoFlowError
        return self._flow.steps()

    def activations(self, regex: str = ".*", *, leaf_modules: bool | Iterable[type | str] = False) -> Activations:
        """The tensors that were computed, by name: of nodes and of modules whose whole name matches `regex`.

        A node is called as in `graph(leaf_modules)`; a module by its qualified name, at its second call with "@1".

        Returns:
            A dictionary. What was changed in place since is left out of it; its attribute `overwritten` has the names.

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
            flt: only nodes whose whole name matches this regular expression.
            exclude: none whose whole name matches this one.
            out: a file that gets the table as well.
            leaf_modules: as for `graph`.

        Raises:
            ViewError: as `graph` does.
        """
        return Table.of(self._standard(self._leaves(leaf_modules)), op, flt, exclude).write(out)

    def __str__(self) -> str:
        return self.table()

    def weights(self, regex: str = ".*") -> Weights:
        """The parameters and buffers whose whole qualified name matches `regex`, with minimum, maximum and deviation.

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
        """Draw the graph into a file that ends in .svg (a picture) or .html (a page in which boxes open and close).

        Args:
            path: the file, which is written anew. A picture takes the extra `draw` and Graphviz.
            depth: how many boxes of modules lie in one another at most. Deeper ones are closed.
            leaf_modules: as for `graph`.

        Returns:
            The path.

        Raises:
            DrawingError: if it cannot be drawn.
            ViewError: as `graph` does.
            OSError: if the file cannot be written.
        """
        from proxy_views.drawing.draw import draw  # Only now: what draws is loaded by those who draw.

        return draw(self.graph(leaf_modules), path, depth)

    def profile(self, flops: Convention = "corrected", device: Device | None = None) -> Profile:
        """What all of the block took, by module and by call: FLOPs, memory and time, in forward and backward passes.

        Args:
            flops: "torch" counts by the formulas of `torch.utils.flop_counter`; "corrected" in the same way, but with
                attention on the CPU, and without counting the backward pass of convolutions with groups too high;
                "siu" counts a multiply-add as one, and elementwise operations too.
            device: a `proxy_views.profile.Device`, whose times are computed beside those that were measured.

        Raises:
            NotProfiledError: if the block was not given `profile=True`.
            ProfileError: if the block has not ended, or `flops` is none of these.
        """
        if self._profiler is None:
            raise NotProfiledError
        return self._profiler.profile(flops, device)

    # What views are made of.

    def _recorded(self) -> Recording:
        """The recording, which has ended well.

        Raises:
            ViewError: if it has not.
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
        """What was recorded, and the graph of it, for other views; neither may be changed.

        Raises:
            ViewError: as `graph` does.
        """
        return self._recorded(), self._standard()

    def _leaves(self, leaf_modules: bool | Iterable[type | str]) -> Leaves:
        """What is one node: what `leaf_modules` of a view says, and what was registered before the block."""
        return Leaves.parse(leaf_modules, self._leaf_modules)

    def _fresh(self, leaves: Leaves) -> Built:
        """A graph that nobody else has, and may be changed."""
        return GraphBuilder(self._recorded(), leaves).build()

    def _note_profile(self, built: Built) -> None:
        """Give the nodes `meta["profile"]`, if that was measured and is known: behind the block."""
        rows = self._profiler.node_rows() if self._profiler is not None else None
        if rows is None:
            return
        for node in built.module.graph.nodes:
            if node.name in built.made_by:
                stack = [name for name, _ in node.meta["nn_module_stack"].values()]
                target = str(getattr(node.target, "__name__", node.target))
                row = rows.row(node.name, target, stack[-1] if stack else None, built.made_by[node.name])
                if row is not None:
                    # The backward pass of a reentrant checkpoint is that of the calls it makes again.
                    is_again = any(node.meta.get("checkpoint_reentrant", ()))
                    node.meta["profile"] = row._replace(backward_flops=None) if is_again else row

    def _standard(self, leaves: Leaves | None = None) -> Built:
        """The graph with these leaves, made once."""
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
    """The node of that name, or the one that gave what the module of that qualified name put out.

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
