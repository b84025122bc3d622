"""What one call of a model did, kept as it happened: the live observer behind `Proxy.trace`.

It makes no graph, and copies no tensor. It keeps what each call was given and gave back, so that the identity of a
tensor is that of a value: no other one can have its `id` meanwhile.
"""

from __future__ import annotations

import copy
import operator
import sys
import types
from functools import cache
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import torch
from torch.utils.checkpoint import checkpoint

from proxy_views.call_state import CallState, now
from proxy_views.errors import TransformError
from proxy_views.grad_switches import GradSwitches
from proxy_views.places import Frames, frames_inside_module
from proxy_views.sizes import SizeRead, live_size
from proxy_views.snapshots import COLLECTIONS, Fill, snapshot
from proxy_wrapper.values.value_marks import version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn

_PLAIN: Final = frozenset({int, float, bool, complex, str, type(None), torch.dtype, torch.device, torch.layout})
"""Types whose values hold no tensor and do not change."""

_ATOMS: Final = frozenset({*_PLAIN, torch.Tensor, torch.nn.Parameter, torch.Size})
"""Types of arguments that need not be looked into: nothing in them changes."""

_TENSOR: Final = torch._C.TensorBase  # The base of `torch.Tensor`, which has most of its methods.

READ: Final = 1
"""It gives no tensor and changes nothing: what it gives is in the program, not in the graph."""
SIZE: Final = 2
"""It gives sizes, which stay in the graph."""
VALUE: Final = 3
"""It gives values of a tensor to Python."""
SWITCH: Final = 4
"""It turns gradients on or off, which is part of the calls that run meanwhile."""
ITERATOR: Final = 5
"""It gives an iterator over a tensor."""

_BUILTIN: Final = frozenset(
    {types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType}
)
"""Types of functions that are written in C."""

_READS: Final = (
    *("dim", "ndimension", "is_contiguous", "is_floating_point", "is_complex", "is_signed", "is_inference", "is_conj"),
    *("is_neg", "is_pinned", "is_shared", "is_same_size", "element_size", "data_ptr", "get_device", "storage_offset"),
    *("untyped_storage", "type", "__repr__", "__format__", "__hash__", "__dir__", "__deepcopy__", "is_set_to"),
)
_VALUES: Final = (
    *("__bool__", "__int__", "__float__", "__complex__", "__index__", "__len__", "__contains__", "__array__"),
    *("item", "tolist", "numpy", "is_nonzero", "equal", "allclose"),
)
_SIZES: Final = ("size", "numel", "nelement", "stride")
_ATTRIBUTES: Final = (
    *("dtype", "device", "ndim", "layout", "requires_grad", "is_leaf", "grad_fn", "output_nr", "name", "names"),
    *("is_cuda", "is_cpu", "is_sparse", "is_sparse_csr", "is_quantized", "is_meta", "is_mps", "is_nested", "is_mkldnn"),
    *("is_xpu", "is_xla", "is_ipu", "is_hpu", "is_mtia", "is_vulkan", "is_maia", "itemsize", "nbytes", "_version"),
    *("retains_grad", "_backward_hooks", "_post_accumulate_grad_hooks", "volatile"),
)


class ModuleCall:
    """A call of a module.

    Attributes:
        module: what was called.
        parent: the call that it was made in; None for that of the model.
        args: by position, as they were when it was called.
        kwargs: by keyword.
        output: what it gave back.
        frames: from the call outwards, to where its parent begins.
        is_opaque: whether what it calls is not seen.
        end: the number of the first step behind it.
        region: the checkpoints that it is called in.
        serial: its number among all calls that have begun.
    """

    __slots__ = (
        "args",
        "end",
        "frames",
        "hook",
        "is_opaque",
        "kwargs",
        "module",
        "output",
        "parent",
        "region",
        "serial",
        "state",
    )

    def __init__(
        self,
        module: nn.Module,
        parent: ModuleCall | None,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        frames: Frames,
        region: tuple[Region, ...],
        state: CallState,
        *,
        is_opaque: bool,
    ) -> None:
        self.module, self.parent, self.args, self.kwargs = module, parent, args, kwargs
        self.frames, self.region, self.state, self.is_opaque = frames, region, state, is_opaque
        self.output: Any = None
        self.end = self.serial = 0
        self.hook = 0  # The key of the hook of ours that waits for the call to end.


class Region(NamedTuple):
    """An activation checkpoint.

    Attributes:
        number: among those of the region that it is in.
        is_reentrant: how it recomputes.
        state: which of torch's switches were on where it was called.
    """

    number: int
    is_reentrant: bool
    state: CallState


class TorchCall:
    """A call of a function: torch's, a `torch.autograd.Function`'s, or one that was named as a leaf.

    Attributes:
        function: as torch names it to a function mode.
        args: by position; lists and dictionaries as they were when it was called.
        kwargs: by keyword.
        result: what it gave back.
        version: how often torch had counted a change of the result in place, when it gave it; -1 if that is no tensor.
        module_call: the innermost call of a module that it was made in.
        frames: from the call outwards, to where that begins.
        state: which of torch's switches were on.
        kind: `SIZE`, `VALUE`, or 0 for what is computed.
        region: the checkpoints that it is made in, the outermost first.
        serial: its number among all calls that have begun.
    """

    __slots__ = (
        "args",
        "frames",
        "function",
        "kind",
        "kwargs",
        "module_call",
        "region",
        "result",
        "serial",
        "state",
        "version",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        module_call: ModuleCall,
        frames: Frames,
        state: CallState,
        region: tuple[Region, ...],
        kind: int,
    ) -> None:
        self.function, self.args, self.kwargs, self.module_call = function, args, kwargs, module_call
        self.frames, self.state, self.region, self.kind = frames, state, region, kind
        self.result: Any = None
        self.version = -1
        self.serial = 0


class Frozen(NamedTuple):
    """Something that the program read from a size, and went on with as a fixed value."""

    step: int
    what: str
    value: object
    frames: Frames
    module_call: ModuleCall


Step: TypeAlias = "ModuleCall | TorchCall"


class Change(NamedTuple):
    """A value that the program goes on with in the place of another, and the innermost call that it was changed in."""

    what: str
    inside: Step


class _Checkpoint:
    """A checkpoint that has not ended, as `before_call` gives it: the regions around it, and the switches."""

    __slots__ = ("inside", "state")

    def __init__(self, inside: tuple[Region, ...], state: CallState) -> None:
        self.inside, self.state = inside, state


_SKIPPED: Final = object()
"""What `before_call` gives for a call that is not recorded."""


class _Ledger:
    """What sizes know of their recording: nothing once it has ended, or they would keep its tensors alive."""

    __slots__ = ("recording",)

    def __init__(self, recording: Recording) -> None:
        self.recording: Recording | None = recording

    @property
    def is_open(self) -> bool:
        """Whether the call is still being recorded."""
        return self.recording is not None

    def freeze(self, what: str, value: object) -> None:
        """Note that the program went on with what it read from a size."""
        if self.recording is not None:
            self.recording.freeze(what, value)


class Recording:
    """Records one call of a model, and what happens inside it, on the thread that it observes.

    Attributes:
        model: the one whose call is recorded.
        steps: what happened, in order; the first is the call of the model.
        tree: the modules of the model when it was called, each with its qualified name.
        modules: the same modules, by identity as they are there.
        tensors: its parameters and buffers then, each with its qualified name; of tied ones, the first.
        aliases: the other names of tied ones.
        parameter_names: which of the names are parameters'.
        non_persistent: the names of buffers that are no part of `state_dict`.
        froze: what was read from sizes.
        changes: what was bent, and where.
        failure: why there is no recording, if there is none.
        is_open: whether the call is being recorded now.
    """

    def __init__(
        self, model: nn.Module, call: int, is_blacklisted: Callable[[nn.Module], bool], *, live_sizes: bool
    ) -> None:
        """Wait for the call of that number, from 0, that is not made inside another one of the model."""
        self.model = model
        self.steps: list[Step] = []
        self.tree: dict[int, str] = {}
        self.tensors: dict[int, tuple[str, torch.Tensor]] = {}
        self.modules: dict[int, nn.Module] = {}
        self.aliases: dict[int, list[str]] = {}
        self.parameter_names: set[str] = set()
        self.non_persistent: set[str] = set()
        self.froze: list[Frozen] = []
        self.changes: list[Change] = []
        self.failure: Exception | None = None
        self.raised = False
        self.calls_seen = 0
        self.is_open = self.is_done = False
        self._wanted = call
        self._is_blacklisted = is_blacklisted
        self._live_sizes = live_sizes
        self._kinds: dict[Any, int] = _kinds()
        self._stack: list[ModuleCall] = []
        self._depth = 0  # Calls of the model that are not the one to be recorded.
        self._inside: Any = None  # The call, of a module or a function, whose inner calls are not recorded.
        self._region: tuple[Region, ...] = ()
        self._regions_in: dict[tuple[int, ...], int] = {}
        self._grad: GradSwitches | None = None  # Only in a reentrant checkpoint.
        self._last_state = CallState(grad=True, inference=False, autocast=())
        self._ledger: _Ledger | None = None
        self._opaque_types: dict[type, bool] = {}
        self._enters_compiled = False
        self._begun = 0

    def serial_now(self) -> int:
        """The number of the call that is running and becomes a step; 0 if none does."""
        if not self.is_open:
            return 0
        call: Step = self._inside if self._inside is not None else self._stack[-1]
        return call.serial

    # Modules.

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Note a call of a module, or begin with that of the model."""
        try:
            if self.is_open:
                if self._inside is None:
                    self._enter_module(module, args, kwargs)
            elif module is self.model and not self.is_done:
                self._depth += 1
                if self._depth == 1:
                    self.calls_seen += 1
                    if self.calls_seen == self._wanted + 1:
                        self._begin(args, kwargs)
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            self._fail(error)

    def enter_compiled(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Note a call of a compiled module, which is one thing."""
        self._enters_compiled = True
        try:
            self.enter(module, args, kwargs)
        finally:
            self._enters_compiled = False

    def leave(self, module: nn.Module, output: Any) -> Any:
        """Note what a module gave back, unless it has hooks of its own, which come first."""
        if self._stack and self._stack[-1].hook and self._stack[-1].module is module:
            return output
        try:
            self._leave(module, output, raised=False)
        except Exception as error:  # noqa: BLE001
            self._fail(error)
        return output

    def leave_raising(self, module: nn.Module) -> None:
        """Note that a module raised; if it is the model, there is no recording."""
        try:
            self._leave(module, None, raised=True)
        except Exception as error:  # noqa: BLE001
            self._fail(error)

    def _begin(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        self._note_tree(self.model, "")
        self.is_open = True
        self._ledger = _Ledger(self)
        self._enter_module(self.model, args, kwargs)

    def _note_tree(self, module: nn.Module, name: str) -> None:
        if id(module) in self.tree:
            return
        self.tree[id(module)] = name
        self.modules[id(module)] = module
        prefix = f"{name}." if name else ""
        attributes = module.__dict__
        for registered in ("_parameters", "_buffers"):
            for key, tensor in attributes.get(registered, {}).items():
                if tensor is None:
                    continue
                if id(tensor) in self.tensors:
                    self.aliases.setdefault(id(tensor), []).append(prefix + key)
                else:
                    self.tensors[id(tensor)] = (prefix + key, tensor)
                if registered == "_parameters":
                    self.parameter_names.add(prefix + key)
        self.non_persistent |= {prefix + key for key in attributes.get("_non_persistent_buffers_set", ())}
        for key, below in attributes.get("_modules", {}).items():
            if below is not None:
                self._note_tree(below, prefix + key)

    def _enter_module(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        parent = self._stack[-1] if self._stack else None
        is_opaque = self._opaque_types.get(type(module))
        if is_opaque is None:
            is_opaque = self._is_blacklisted(module) or _is_compiled(module)
            self._opaque_types[type(module)] = is_opaque
        call = ModuleCall(
            module, parent, _arguments_as_given(args), _keywords_as_given(kwargs),
            frames_inside_module(4, of_call=True), self._region, self._state(),
            is_opaque=is_opaque or self._enters_compiled or getattr(module, "_compiled_call_impl", None) is not None,
        )  # fmt: skip
        is_opaque = call.is_opaque
        call.serial = self._begun = self._begun + 1
        self.steps.append(call)
        self._stack.append(call)
        if is_opaque:
            self._inside = call
        if module.__dict__.get("_forward_hooks"):
            self._wait_for_hooks(call)

    def _wait_for_hooks(self, call: ModuleCall) -> None:
        """See what the hooks of a module itself make of its output: those on all modules are called before them."""
        thread = get_ident()

        def last(module: nn.Module, _: Any, output: Any) -> None:
            if get_ident() == thread and call.hook:
                _take_hook_out(call)
                try:
                    self._leave(module, output, raised=False)
                except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
                    self._fail(error)

        call.hook = -id(call)  # Torch counts its keys up from 0.
        call.module._forward_hooks[call.hook] = last

    def _leave(self, module: nn.Module, output: Any, *, raised: bool) -> None:
        if not self.is_open:
            if module is self.model and self._depth:
                self._depth -= 1
            return
        if self._inside is not None and self._inside is not self._stack[-1]:
            return
        if self._inside is not None and self._inside.module is not module:
            return
        while self._stack:  # Those above it were left by exceptions that hooks are not told of.
            call = self._stack.pop()
            _take_hook_out(call)
            call.end = len(self.steps)
            if self._inside is call:
                self._inside = None
            if call.module is module:
                call.output = as_given(output)
                break
        if not self._stack:
            self._end(raised=raised)

    def _end(self, *, raised: bool) -> None:
        self.is_open, self.is_done, self.raised = False, True, raised
        self._depth = 0
        if self._ledger is not None:
            self._ledger.recording = None
            self._ledger = None
        for call in self._stack:
            _take_hook_out(call)

    # Functions.

    def before_call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Note a call, with what it is given: a list may be changed after it."""
        if not self.is_open or self._inside is not None:
            return _SKIPPED
        try:
            return self._before_call(function, args, kwargs)
        except Exception as error:  # noqa: BLE001
            self._fail(error)
            return _SKIPPED

    def _before_call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if function is checkpoint:
            return self._enter_region(is_reentrant=bool(kwargs["use_reentrant"]))
        try:
            kind = self._kinds.get(function)
        except TypeError:  # Nothing that can be a key.
            kind = 0
        if kind is None:
            kind = _kind_of_builtin(function) if type(function) in _BUILTIN else kind_of(function)
            self._kinds[function] = kind
        if kind == SWITCH:
            if self._grad is not None:
                self._grad.switch(sys._getframe(), is_on=bool(args and args[0]))
            return _SKIPPED
        if kind == READ:
            return _SKIPPED
        if torch._C._are_functorch_transforms_active():
            raise TransformError(frames_inside_module(3))
        call = TorchCall(
            function, _arguments_as_given(args), _keywords_as_given(kwargs), self._stack[-1],
            frames_inside_module(3), self._state(), self._region, kind,
        )  # fmt: skip
        call.serial = self._begun = self._begun + 1
        self._inside = call
        return call

    def after_call(self, call: Any, result: Any) -> Any:
        """Note what a call gave back; sizes are given back as such that know where they come from."""
        if call is _SKIPPED:
            return result
        try:
            return self._after_call(call, result)
        except Exception as error:  # noqa: BLE001
            self._fail(error)
            return result

    def _after_call(self, call: Any, result: Any) -> Any:
        if isinstance(call, _Checkpoint):
            self._leave_region(call)
            return result
        if self._inside is call:
            self._inside = None
        if not self.is_open:
            return result
        if call.kind == ITERATOR:
            rows = tuple(result)
            call.function, call.args, call.kind, result = torch.Tensor.unbind, (call.args[0], 0), 0, rows
            call.result = rows
            self.steps.append(call)
            return iter(rows)
        if call.kind == SIZE:
            if not self._live_sizes:
                return result
            result = self._live(result)
        if type(result) is torch.Tensor:
            call.result = result
            call.version = version_of(result)
        else:
            call.result = as_given(result)
        self.steps.append(call)
        return result

    def after_raising(self, call: Any) -> None:
        """Forget a call that raised."""
        if isinstance(call, _Checkpoint):
            self._leave_region(call)
        elif self._inside is call:
            self._inside = None

    def changed(self, what: str) -> None:
        """Note a change: a graph in which that call is part of one node would not have it."""
        if self.is_open:
            self.changes.append(Change(what, self._inside if self._inside is not None else self._stack[-1]))

    def _live(self, result: Any) -> Any:
        step, ledger = len(self.steps), self._ledger
        if ledger is None:
            return result
        if isinstance(result, tuple):
            sizes = [live_size(each, SizeRead(step, index), ledger) for index, each in enumerate(result)]
            return torch.Size(sizes) if isinstance(result, torch.Size) else tuple(sizes)
        return live_size(result, SizeRead(step, None), ledger) if type(result) is int else result

    def freeze(self, what: str, value: object) -> None:
        """Note that the program went on with what it read from a size."""
        if self._inside is None and self._stack:
            found = Frozen(len(self.steps), what, value, frames_inside_module(3), self._stack[-1])
            if not self.froze or self.froze[-1][1:] != found[1:]:
                self.froze.append(found)

    # Checkpoints.

    def _enter_region(self, *, is_reentrant: bool) -> _Checkpoint:
        held = _Checkpoint(self._region, self._state())
        path = tuple(each.number for each in self._region)
        number = self._regions_in.get(path, 0)
        self._regions_in[path] = number + 1
        self._region = (*self._region, Region(number, is_reentrant, held.state))
        if is_reentrant and self._grad is None:
            self._grad = GradSwitches(is_on=held.state.grad)
        return held

    def _leave_region(self, held: _Checkpoint) -> None:
        self._region = held.inside
        if not any(each.is_reentrant for each in held.inside):
            self._grad = None
        elif self._grad is not None:
            self._grad.is_on = held.state.grad

    def _state(self) -> CallState:
        """Torch's switches; that a reentrant checkpoint runs without gradients at first does not count as one."""
        state = self._last_state = now(self._last_state)
        return state if self._grad is None else state._replace(grad=self._grad.is_on)

    def stop(self) -> None:
        """Record no further: the block has ended."""
        if self.is_open:
            self._end(raised=True)

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or error
        self._end(raised=False)


def _take_hook_out(call: ModuleCall) -> None:
    """Leave the module as it was found."""
    if call.hook:
        call.module._forward_hooks.pop(call.hook, None)
        call.hook = 0


def _arguments_as_given(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What `as_given` gives for arguments, most of which have nothing to be copied."""
    for each in args:
        if type(each) not in _ATOMS:
            return tuple(map(as_given, args))
    return args


def _keywords_as_given(kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same for arguments by keyword; the dictionary is the call's own."""
    for each in kwargs.values():
        if type(each) not in _ATOMS:
            return {key: as_given(each) for key, each in kwargs.items()}
    return kwargs


def as_given(value: Any) -> Any:
    """`value` itself, with the lists, dictionaries and objects in it copied: the program may change its own."""
    kind = type(value)
    if kind in _PLAIN or isinstance(value, _TENSOR):
        return value
    if kind is tuple:
        copies = tuple(map(as_given, value))
        return value if all(map(operator.is_, copies, value)) else copies
    if kind is list:
        return [as_given(each) for each in value]
    if isinstance(value, dict):
        copied = {key: as_given(each) for key, each in value.items()}
        return copied if kind is dict else _like(value, copied)
    return copy.copy(value) if kind in COLLECTIONS else snapshot(value, as_given)


def _like(value: dict[Any, Any], copied: dict[Any, Any]) -> Any:
    """`copied` as a dictionary of the type of `value`, where such can be made of its items alone."""
    try:
        return type(value)(**copied) if hasattr(value, "__dataclass_fields__") else Fill(value)(copied)
    except Exception:  # noqa: BLE001  Whatever the program's class does with it.
        return value


def _is_compiled(module: nn.Module) -> bool:
    """Whether nothing is seen of what a call of `module` does: it is compiled, or TorchScript."""
    return isinstance(module, torch.jit.ScriptModule) or type(module).__name__ == "OptimizedModule"


def _kinds() -> dict[Any, int]:
    """What is known of functions from the start."""
    return {torch._C._set_grad_enabled: SWITCH}


@cache
def _kind_of_builtin(function: Any) -> int:
    """The same, kept from one recording to the next: functions that are written in C are those of torch, and stay."""
    return kind_of(function)


def kind_of(function: Any) -> int:
    """Which of the kinds above a call of `function` is; 0 if it computes."""
    name = getattr(function, "__name__", "")
    if name == "__get__":
        owner = function.__self__
        attribute = getattr(owner, "__name__", None) or getattr(getattr(owner, "fget", None), "__name__", "")
        return SIZE if attribute == "shape" else READ if attribute in _ATTRIBUTES else 0
    if name == "__iter__":
        return ITERATOR
    if name in _VALUES:
        return VALUE
    is_method = hasattr(function, "__objclass__") or getattr(function, "__qualname__", "").startswith("Tensor.")
    if name in _SIZES and is_method:
        return SIZE
    if name in _READS:
        return READ
    module = str(getattr(function, "__module__", ""))
    if module.startswith("torch._ops.profiler"):
        return READ
    return SWITCH if name in ("_set_grad_enabled", "_enter_autocast", "_exit_autocast", "set_grad_enabled") else 0
