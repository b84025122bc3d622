"""Builds a `torch.fx` graph from a recording: of torch calls, on the model's own parameters.

The graph computes the same as the model, bit for bit. This includes other inputs, if they take the same path.
"""

from __future__ import annotations

import collections
import enum
import operator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import fx, nn
from torch.utils.checkpoint import checkpoint

from proxy_views.call_kinds import SIZE, VALUE
from proxy_views.call_state import CallState
from proxy_views.call_under import CallUnder
from proxy_views.constants import Constants
from proxy_views.places import Places
from proxy_views.recorded_graph import RecordedGraph
from proxy_views.signature import Argument, arguments_of
from proxy_views.sizes import LiveSize, SizeArithmetic, SizeRead
from proxy_views.snapshots import COLLECTIONS, Fill, Rebuild, Snapshot
from proxy_views.steps import ModuleCall, TorchCall
from proxy_views.structures import Part, is_dataclass, parts_of, tensors_in
from proxy_views.targets import Method, Targets
from proxy_views.targets import arguments_of as node_arguments
from proxy_views.tensor_meta import describe_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from proxy_views.recording import Recording
    from proxy_views.steps import Region

_TENSOR: Final = torch._C.TensorBase
_LITERALS: Final = (str, int, float, complex, bool, type(None), type(...), torch.dtype, torch.device, torch.layout)
_KEPT_AS_THEY_ARE: Final = (*_LITERALS, torch.memory_format, enum.Enum, torch._ops.OpOverload)


class Leaves(NamedTuple):
    """Which modules are single nodes.

    Attributes:
        of_torch: whether modules of `torch.nn` are, except `nn.Sequential`, as in `torch.fx`.
        types: types of modules that are, with their subclasses.
        names: qualified names of modules that are.
    """

    of_torch: bool
    types: tuple[type, ...]
    names: frozenset[str]

    @classmethod
    def parse(cls, leaf_modules: bool | Iterable[type | str], always: tuple[type, ...] = ()) -> Leaves:
        """The meaning of `leaf_modules` of `trace.graph`, with the types `always` as additional leaves."""
        if isinstance(leaf_modules, (bool, type, str)):
            given: tuple[Any, ...] = () if isinstance(leaf_modules, bool) else (leaf_modules,)
            of_torch = leaf_modules is True
        else:
            given, of_torch = tuple(leaf_modules), False
        types = tuple(each for each in given if isinstance(each, type))
        return cls(of_torch, (*types, *always), frozenset(each for each in given if isinstance(each, str)))

    def has(self, module: nn.Module, name: str) -> bool:
        """Whether `module`, with this qualified name, is a single node."""
        if self.types and isinstance(module, self.types):
            return True
        if name in self.names:
            return True
        return self.of_torch and type(module).__module__.startswith("torch.nn") and type(module) is not nn.Sequential


class Constant(NamedTuple):
    """A tensor in the graph that was not an input, parameter, buffer or result."""

    name: str
    step: int


class Hidden(NamedTuple):
    """Something that was bent inside a single node.

    Attributes:
        what: what was bent.
        node: the qualified name of the module that is a single node, or the name of the function.
        is_chosen: whether it is a single node because of `leaf_modules`.
    """

    what: str
    node: str
    is_chosen: bool


class Built(NamedTuple):
    """A graph and the facts known about it.

    Attributes:
        module: the graph as a module.
        values: the recorded results of nodes by name, for those whose result is a tensor.
        versions: torch's counts of in-place changes to these results, as recorded.
        outputs: by the qualified name of a module, the nodes that computed its output, one for each call.
        constants: the tensors that are constants of the graph.
        hidden: what was bent inside single nodes, and is missing in the graph.
        made_by: the serial numbers of the calls that each node stands for, by the node's name.
    """

    module: fx.GraphModule
    values: dict[str, torch.Tensor]
    versions: dict[str, int]
    outputs: dict[str, list[fx.Node]]
    constants: list[Constant]
    made_by: dict[str, tuple[int, ...]]
    hidden: list[Hidden]


class _Pending(NamedTuple):
    """A tensor inside the result of a node. It gets its own node when something uses it."""

    node: fx.Node
    path: tuple[Part, ...]


class _Planned(NamedTuple):
    """A step with its number. `is_end`: this is the end of a module's call, not its beginning."""

    number: int
    step: ModuleCall | TorchCall
    is_end: bool


class GraphBuilder:
    """Goes through the steps of a recording once, and builds nodes from them."""

    def __init__(self, recording: Recording, leaves: Leaves) -> None:
        self._recording = recording
        self._leaves = leaves
        self._graph = fx.Graph()
        self._places = Places()
        self._constants = Constants(recording)
        self._targets = Targets()
        self._nodes: dict[int, fx.Node | _Pending] = {}
        self._sizes: dict[int, fx.Node] = {}
        self._computed_sizes: dict[int, tuple[LiveSize, fx.Node]] = {}
        self._wanted_sizes: set[int] = set()
        self._values: dict[str, torch.Tensor] = {}
        self._versions: dict[str, int] = {}
        self._outputs: dict[str, list[fx.Node]] = {}
        self._found: list[Constant] = []
        self._made_by: dict[str, tuple[int, ...]] = {}
        self._placeholders: list[fx.Node] = []
        self._traces: dict[int, str] = {}
        self._stacks: dict[int, dict[str, tuple[str, type]]] = {}
        self._calls_of: dict[str, int] = {}
        self._meta: dict[str, Any] = {}
        self._step = 0
        self._is_given_back = False  # Torch functions take a tuple for a size; the program expects a `torch.Size`.
        root = recording.steps[0]
        assert isinstance(root, ModuleCall)
        self._root = root

    def build(self) -> Built:
        """The graph of all steps."""
        recording, root = self._recording, self._root
        plan = list(self._plan())
        for planned in plan:
            step = planned.step
            if not planned.is_end and not (isinstance(step, TorchCall) and step.kind):
                self._want_sizes((step.args, step.kwargs))
        self._want_sizes(root.output)
        self._begin_node(root, 0)
        arguments = arguments_of(root.module.forward, root.args, root.kwargs)
        for argument in arguments:
            self._placeholder(argument)
        if root.is_opaque:
            self._call_module(root, 0)
        for number, step, is_end in plan:
            self._begin_node(step, number)
            if isinstance(step, TorchCall):
                self._call(step, number)
            elif is_end:
                self._note_output(step)
            else:
                self._call_module(step, number)
        self._begin_node(root, len(recording.steps))
        self._is_given_back = True
        self._graph.output(self._argument(root.output))
        module = RecordedGraph(self._constants.root(), self._graph, type(root.module).__name__)
        self._constants.finish(module)
        return Built(module, self._values, self._versions, self._outputs, self._found, self._made_by, self._hidden())

    def _hidden(self) -> list[Hidden]:
        """What was bent inside single nodes."""
        found = []
        for what, inside in self._recording.changes:
            if isinstance(inside, TorchCall):
                found.append(Hidden(what, getattr(inside.function, "__qualname__", "a function"), is_chosen=False))
                continue
            call: ModuleCall | None = inside
            while call is not None:
                is_chosen = call is not self._root and self._leaves.has(call.module, self._name_of(call))
                if call.is_opaque or is_chosen:
                    found.append(Hidden(what, self._name_of(call), is_chosen=is_chosen and not call.is_opaque))
                    break
                call = call.parent
        return found

    def _plan(self) -> Iterator[_Planned]:
        """The steps that become nodes, and the ends of calls. Steps inside a leaf are skipped."""
        steps = self._recording.steps if not self._root.is_opaque else []
        number = 1
        begun: list[ModuleCall] = []
        while number < len(steps):
            while begun and begun[-1].end <= number:
                yield _Planned(number, begun.pop(), is_end=True)
            step = steps[number]
            if isinstance(step, TorchCall):
                if step.kind != VALUE:
                    yield _Planned(number, step, is_end=False)
            elif step.is_opaque or self._leaves.has(step.module, self._name_of(step)):
                yield _Planned(number, step, is_end=False)
                number = max(step.end, number + 1)
                continue
            else:
                begun.append(step)
            number += 1
        while begun:
            yield _Planned(number, begun.pop(), is_end=True)

    # Values to nodes.

    def _node(self, tensor: torch.Tensor) -> fx.Node:
        """The node whose result is `tensor`."""
        known = self._nodes.get(id(tensor))
        if isinstance(known, fx.Node):
            return known
        if known is not None:
            node = known.node
            for part in known.path:
                node = self._graph.call_function(getattr if part.is_attribute else operator.getitem, (node, part.key))
                node.meta.update(known.node.meta)
            return self._bind(tensor, node)
        found = self._recording.tensors.get(id(tensor))
        if found is not None:
            name = self._constants.state(*found)
        else:
            name = self._constants.tensor(tensor)
            self._found.append(Constant(name, self._step))
        node = self._graph.get_attr(name)
        node.meta.update(self._meta)
        return self._bind(tensor, node)

    def _bind(self, tensor: torch.Tensor, node: fx.Node, version: int | None = None) -> fx.Node:
        self._nodes[id(tensor)] = node
        self._values[node.name] = tensor
        if version is not None:
            self._versions[node.name] = version
        node.meta["tensor_meta"] = describe_tensor(tensor)
        return node

    def _bind_all(self, value: Any, node: fx.Node, version: int | None = None) -> None:
        """Associate `node` with `value`, and with each tensor in it."""
        if isinstance(value, _TENSOR):
            self._bind(value, node, version)  # type: ignore[arg-type]
            return
        found = list(tensors_in(value))
        for path, tensor in found:
            self._nodes[id(tensor)] = _Pending(node, path)
        if found:
            node.meta["tensor_meta"] = tuple(describe_tensor(tensor) for _, tensor in found)

    def _argument(self, value: Any) -> Any:
        """`value` as an argument of a node."""
        if isinstance(value, _TENSOR):
            return self._node(value)  # type: ignore[arg-type]
        if isinstance(value, LiveSize):
            return self._size(value)
        if isinstance(value, _KEPT_AS_THEY_ARE):
            return value
        if isinstance(value, tuple):
            return self._tuple(value)
        if isinstance(value, list):
            return [self._argument(each) for each in value]
        if type(value) is dict:
            return {key: self._argument(each) for key, each in value.items()}
        if isinstance(value, slice):
            return slice(*map(self._argument, (value.start, value.stop, value.step)))
        return self._rebuilt(value)

    def _keywords(self, call: ModuleCall | TorchCall) -> dict[str, Any]:
        return {key: self._argument(each) for key, each in call.kwargs.items()}

    def _object(self, value: Any) -> fx.Node:
        node = self._graph.get_attr(self._constants.object(value))
        node.meta.update(self._meta)
        return node

    def _tuple(self, value: tuple[Any, ...]) -> Any:
        inner = [self._argument(each) for each in value]
        if isinstance(value, torch.Size) and self._is_given_back:
            return self._made(torch.Size, (tuple(inner),), {})
        if not hasattr(value, "_fields"):
            return tuple(inner)
        # Generated code cannot find the class of a named tuple in a dictionary, and a class may check its arguments.
        return self._made(Rebuild(type(value)), (inner,), {})

    def _rebuilt(self, value: Any) -> Any:
        """A node that rebuilds an object or collection that holds tensors. Any other object becomes a constant."""
        if isinstance(value, Snapshot):
            before, self._is_given_back = self._is_given_back, True
            attributes = {name: self._argument(each) for name, each in value.attributes.items()}
            self._is_given_back = before
            return self._made(Rebuild(value.type), (attributes,), {})
        if type(value) in COLLECTIONS and any(isinstance(each, _TENSOR) for each in value):
            limit = {"maxlen": value.maxlen} if isinstance(value, collections.deque) else {}
            return self._made(type(value), ([self._argument(each) for each in value],), limit)
        if not isinstance(value, dict) or not any(True for _ in tensors_in(value)):
            return self._object(value)
        if is_dataclass(value):  # Such as the outputs of transformers.
            given = {key: self._argument(each) for key, each in value.items() if each is not None}
            return self._made(type(value), (), given)
        return self._made(Fill(value), ({key: self._argument(each) for key, each in value.items()},), {})

    def _made(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
        node = self._graph.call_function(target, args, kwargs)
        node.meta.update(self._meta)
        return node

    # Sizes.

    def _want_sizes(self, value: Any) -> None:
        """Note the reads of sizes that `value`, an argument of a call, depends on."""
        if isinstance(value, LiveSize):
            source = value.source
            if isinstance(source, SizeRead):
                self._wanted_sizes.add(source.step)
            else:
                for each in source.operands:
                    self._want_sizes(each)
        elif isinstance(value, slice):
            self._want_sizes((value.start, value.stop, value.step))
        elif not isinstance(value, _TENSOR):
            for _, inner in parts_of(value):
                self._want_sizes(inner)

    def _size(self, size: LiveSize) -> Any:
        source = size.source
        if isinstance(source, SizeRead):
            node = self._sizes.get(source.step)
            if node is None:  # It was read in a leaf.
                return int.__index__(size)
            if source.position is None:
                return node
            return self._part_of_size(node, source.position, size)
        return self._computed_size(size, source)

    def _part_of_size(self, node: fx.Node, index: int, size: LiveSize) -> fx.Node:
        for user in node.users:
            if user.target is operator.getitem and user.args[1] == index:
                return user
        made = self._graph.call_function(operator.getitem, (node, index))
        made.meta.update(node.meta)
        made.meta["val"] = int.__index__(size)
        return made

    def _computed_size(self, size: LiveSize, source: SizeArithmetic) -> Any:
        known = self._computed_sizes.get(id(size))
        if known is not None:
            return known[1]
        operands = tuple(self._size(each) if isinstance(each, LiveSize) else each for each in source.operands)
        if not any(isinstance(each, fx.Node) for each in operands):
            return int.__index__(size)
        node = self._graph.call_function(source.function, operands)
        node.meta.update(self._meta)
        node.meta["val"] = int.__index__(size)
        self._computed_sizes[id(size)] = (size, node)
        return node

    # Steps to nodes.

    def _placeholder(self, argument: Argument) -> None:
        node = self._graph.placeholder(argument.target, default_value=argument.default)
        node.meta.update(self._meta)
        self._bind_all(argument.value, node)

    def _call(self, call: TorchCall, number: int) -> None:
        if call.kind == SIZE:
            if number in self._wanted_sizes:
                node = self._emit(call)
                node.meta["val"] = call.result
                self._sizes[number] = node
            return
        node = self._emit(call)
        self._made_by[node.name] = (call.serial,)
        self._bind_all(call.result, node, call.version)

    def _emit(self, call: TorchCall) -> fx.Node:
        args, kwargs = self._argument(call.args), self._keywords(call)
        kind, target = self._targets.of(call)
        outer = self._switches_around(call)
        if call.state != outer:
            function = Method(target) if kind == "call_method" else target
            kind, target = "call_function", CallUnder(function, call.state, outer)
        return self._finish(self._graph.create_node(kind, target, node_arguments(call, args), kwargs))

    def _call_module(self, call: ModuleCall, number: int) -> None:
        target = self._constants.module(self._name_of(call), call.module)
        args, kwargs = self._argument(call.args), self._keywords(call)
        outer = self._switches_around(call)
        if call.state == outer:
            node = self._graph.call_module(target, args, kwargs)
        else:
            inside = self._constants.module_under(target, call, outer)
            node = self._graph.call_module(inside, args, kwargs)
        within = self._recording.steps[number : max(call.end, number + 1)]
        self._made_by[node.name] = tuple(each.serial for each in within)
        self._bind_all(call.output, self._finish(node))
        self._note_output(call)

    def _switches_around(self, call: ModuleCall | TorchCall) -> CallState:
        """The state in which the node of `call` runs: that of the graph, or of one of its checkpoints.

        Whether checkpoints become subgraphs is decided later, so a setting that differs from the call's is preferred.
        """
        root = self._root.state
        if not call.region:
            return root
        around = [root, *(_around_region(each, root) for each in call.region)]
        each_switch = zip(call.state, *around, strict=True)
        return CallState(*(next((one for one in others if one != own), own) for own, *others in each_switch))

    def _finish(self, node: fx.Node) -> fx.Node:
        node.meta.update(self._meta)
        return node

    # Metadata of nodes.

    def _begin_node(self, step: ModuleCall | TorchCall, number: int) -> None:
        self._step = number
        around = step if isinstance(step, ModuleCall) else step.module_call
        self._meta = {"nn_module_stack": self._stack_of(around), "stack_trace": self._stack_trace(step)}
        _note_region(self._meta, step.region, self._root.state)

    def _stack_trace(self, step: ModuleCall | TorchCall) -> str:
        if isinstance(step, ModuleCall):
            return self._trace_of_call(step)
        return self._trace_of_call(step.module_call) + self._places.traceback(step.frames)

    def _trace_of_call(self, call: ModuleCall) -> str:
        known = self._traces.get(id(call))
        if known is None:
            above = self._trace_of_call(call.parent) if call.parent is not None else ""
            known = self._traces[id(call)] = above + self._places.traceback(call.frames)
        return known

    def _stack_of(self, call: ModuleCall) -> dict[str, tuple[str, type]]:
        known = self._stacks.get(id(call))
        if known is None:
            above = self._stack_of(call.parent) if call.parent is not None else {}
            name = self._name_of(call)
            count = self._calls_of.get(name, 0)
            self._calls_of[name] = count + 1
            key = f"{name}@{count}" if count else name
            known = self._stacks[id(call)] = {**above, key: (name, type(call.module))}
        return known

    def _name_of(self, call: ModuleCall) -> str:
        """The qualified name of the called module. A module outside the model is named after its caller and class."""
        known = self._recording.tree.get(id(call.module))
        if known is None:
            above = self._name_of(call.parent) if call.parent is not None else ""
            known = f"{above}.{type(call.module).__name__}".lstrip(".")
        return known

    def _note_output(self, call: ModuleCall) -> None:
        """Note which node computed the output of a module's call, which has just ended."""
        if isinstance(call.output, _TENSOR):
            known = self._nodes.get(id(call.output))
            if known is not None:
                node = self._node(call.output)  # type: ignore[arg-type]
                self._outputs.setdefault(self._name_of(call), []).append(node)


def _around_region(region: Region, root: CallState) -> CallState:
    """The state in which a checkpoint is called. Autocast is part of each call inside it."""
    return root._replace(grad=region.state.grad, inference=region.state.inference)


def _note_region(meta: dict[str, Any], region: Sequence[Region], root: CallState) -> None:
    if region:
        meta["checkpoint_region"] = tuple(each.number for each in region)
        meta["checkpoint_reentrant"] = tuple(each.is_reentrant for each in region)
        around = [_around_region(each, root) for each in region]
        if any(each != root for each in around):
            meta["checkpoint_call"] = tuple(
                checkpoint if each == root else CallUnder(checkpoint, each, root) for each in around
            )
