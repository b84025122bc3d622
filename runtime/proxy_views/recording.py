"""Records one call of a model while it runs: the live observer behind `Proxy.trace`.

It builds no graph and copies no tensor. It keeps the arguments and result of each call alive, so that no `id` of a
tensor is reused. An `id` therefore identifies a value.
"""

from __future__ import annotations

import sys
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils.checkpoint import checkpoint

from proxy_views.as_given import arguments_as_given, as_given, keywords_as_given
from proxy_views.call_kinds import ITERATOR, READ, SIZE, SWITCH, kind_of
from proxy_views.call_state import CallState, now
from proxy_views.errors import TransformError
from proxy_views.grad_switches import GradSwitches
from proxy_views.places import frames_inside_module
from proxy_views.sizes import SizeRead, live_size
from proxy_views.steps import Change, Frozen, ModuleCall, Region, TorchCall
from proxy_wrapper.values.value_marks import version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn

    from proxy_views.steps import Step


class _Checkpoint:
    """A checkpoint that has not ended, as `before_call` returns it: the enclosing regions, and the switches."""

    __slots__ = ("inside", "state")

    def __init__(self, inside: tuple[Region, ...], state: CallState) -> None:
        self.inside, self.state = inside, state


_SKIPPED: Final = object()
"""What `before_call` returns for a call that is not recorded."""


class _Ledger:
    """The link from sizes to their recording. It is cut at the end, or sizes would keep the recorded tensors alive."""

    __slots__ = ("recording",)

    def __init__(self, recording: Recording) -> None:
        self.recording: Recording | None = recording

    @property
    def is_open(self) -> bool:
        """Whether the call is still being recorded."""
        return self.recording is not None

    def freeze(self, what: str, value: object) -> None:
        """Record that the program continued with a fixed value read from a size."""
        if self.recording is not None:
            self.recording.freeze(what, value)


class Recording:
    """Records one call of a model, and the calls inside it, on the thread that it observes.

    Attributes:
        model: the model whose call is recorded.
        steps: the calls in order; the first is the call of the model.
        tree: the qualified names of the model's modules at the time of the call, by `id`.
        modules: the same modules, by `id`.
        tensors: its parameters and buffers at that time, with qualified names (of tied ones, the first), by `id`.
        aliases: the other names of tied ones, by `id`.
        parameter_names: which of the names belong to parameters.
        non_persistent: the names of buffers that are not in `state_dict`.
        froze: reads of sizes that the program continued with as fixed values.
        changes: what was bent, and where.
        failure: the error that stopped recording, if any.
        is_open: whether the call is being recorded now.
    """

    def __init__(
        self, model: nn.Module, call: int, is_blacklisted: Callable[[nn.Module], bool], *, live_sizes: bool
    ) -> None:
        """Wait for the call with index `call`. Calls of the model inside other calls of it do not count."""
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
        self._kinds: dict[Any, int] = {torch._C._set_grad_enabled: SWITCH}
        self._stack: list[ModuleCall] = []
        self._depth = 0  # Running calls of the model, while none is recorded.
        self._inside: Any = None  # The running call whose inner calls are not recorded.
        self._region: tuple[Region, ...] = ()
        self._regions_in: dict[tuple[int, ...], int] = {}
        self._grad: GradSwitches | None = None  # Only in a reentrant checkpoint.
        self._last_state = CallState(grad=True, inference=False, autocast=())
        self._ledger: _Ledger | None = None
        self._opaque_types: dict[type, bool] = {}
        self._enters_compiled = False
        self._begun = 0

    def serial_now(self) -> int:
        """The serial number of the running call that becomes a step; 0 if there is none."""
        if not self.is_open:
            return 0
        call: Step = self._inside if self._inside is not None else self._stack[-1]
        return call.serial

    # Modules.

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Record a call of a module, or start recording with that of the model."""
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
        """Record a call of a compiled module, which is opaque."""
        self._enters_compiled = True
        try:
            self.enter(module, args, kwargs)
        finally:
            self._enters_compiled = False

    def leave(self, module: nn.Module, output: Any) -> Any:
        """Record the output of a module. If it has hooks of its own, wait for these."""
        if self._stack and self._stack[-1].hook and self._stack[-1].module is module:
            return output
        try:
            self._leave(module, output, raised=False)
        except Exception as error:  # noqa: BLE001
            self._fail(error)
        return output

    def leave_raising(self, module: nn.Module) -> None:
        """Note that a module raised. If it is the model, the recording ends without a result."""
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
            module, parent, arguments_as_given(args), keywords_as_given(kwargs),
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
        """See the output as changed by the module's own hooks, which torch calls after the global ones."""
        thread = get_ident()

        def last(module: nn.Module, _: Any, output: Any) -> None:
            if get_ident() == thread and call.hook:
                _take_hook_out(call)
                try:
                    self._leave(module, output, raised=False)
                except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
                    self._fail(error)

        call.hook = -id(call)  # Torch's own keys count up from 0.
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
        while self._stack:  # Calls above it ended by exceptions that hooks do not report.
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
        """Record a call with copies of its arguments' containers, because a list may change later."""
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
        except TypeError:  # It is not hashable.
            kind = 0
        if kind is None:
            kind = kind_of(function)
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
            function, arguments_as_given(args), keywords_as_given(kwargs), self._stack[-1],
            frames_inside_module(3), self._state(), self._region, kind,
        )  # fmt: skip
        call.serial = self._begun = self._begun + 1
        self._inside = call
        return call

    def after_call(self, call: Any, result: Any) -> Any:
        """Record the result of a call, and return it. Sizes are returned as `LiveSize`."""
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
        """Record that a value was bent. A graph would lose this if the current call is inside a single node."""
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
        """Record that the program continued with a fixed value read from a size."""
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
        """The state of torch's switches, except that a reentrant checkpoint first runs without gradients."""
        state = self._last_state = now(self._last_state)
        return state if self._grad is None else state._replace(grad=self._grad.is_on)

    def stop(self) -> None:
        """Stop recording, because the block has ended."""
        if self.is_open:
            self._end(raised=True)

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or error
        self._end(raised=False)


def _take_hook_out(call: ModuleCall) -> None:
    """Remove our hook from the module."""
    if call.hook:
        call.module._forward_hooks.pop(call.hook, None)
        call.hook = 0


def _is_compiled(module: nn.Module) -> bool:
    """Whether `module` is compiled or TorchScript, so that calls inside it are not seen."""
    return isinstance(module, torch.jit.ScriptModule) or type(module).__name__ == "OptimizedModule"
