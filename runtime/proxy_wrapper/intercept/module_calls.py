"""Sees the calls of modules, through PyTorch's global module hooks.

Global, because hooks on a module itself switch off fast paths that look for them
(`nn.TransformerEncoderLayer`), and with them the last bits of the results.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from proxy_wrapper.describe import find_tensors
from proxy_wrapper.events import CallModule, NonFinite, ReturnModule
from proxy_wrapper.levels import INFO
from proxy_wrapper.statistics import count_nonfinite, has_values, unobserved
from proxy_wrapper.thread_state import ActiveCall

if TYPE_CHECKING:
    from types import FrameType

    from torch.utils.hooks import RemovableHandle

    from proxy_wrapper.pending import PendingCount
    from proxy_wrapper.registry import ModuleEntry
    from proxy_wrapper.tracer import Tracer

_MODULE_CALL: Final = nn.Module._call_impl.__code__


class ModuleCalls:
    """Makes `CallModule` and `ReturnModule` events, and `NonFinite` ones for outputs."""

    def __init__(self, tracer: Tracer, on_enter: ModeSetter) -> None:
        """Watch for `tracer`.

        Args:
            tracer: what the events are made for.
            on_enter: told of each call, so that the calling thread sees torch calls where it should.
        """
        self._tracer = tracer
        self._mode = on_enter
        self._handles: list[RemovableHandle] = []

    def install(self) -> None:
        """Register the hooks."""
        if not self._handles:
            self._handles = [
                register_module_forward_pre_hook(self.enter),
                register_module_forward_hook(self.leave, with_kwargs=True, always_call=True),
            ]

    def remove(self) -> None:
        """Remove the hooks."""
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.remove()
            # torch 2.13 forgets this note of a hook when it removes the hook.
            torch.nn.modules.module._global_forward_hooks_with_kwargs.pop(handle.id, None)

    def is_alone(self) -> bool:
        """Whether these are the only global module hooks there are."""
        hooks = torch.nn.modules.module
        ours = {handle.id for handle in self._handles}
        return not (
            hooks._global_backward_pre_hooks
            or hooks._global_backward_hooks
            or set(hooks._global_forward_hooks) - ours
            or set(hooks._global_forward_pre_hooks) - ours
        )

    def enter(self, module: nn.Module, args: Any) -> None:
        """Begin a call of `module` with the positional arguments `args`."""
        try:
            # What follows asks tensors for nothing that a function mode sees, but for the look at the model's state
            # before the outermost call.
            if self._tracer.thread.stack and not torch._C._len_torch_function_stack():
                self._begin(module, args)
                return
            with torch._C.DisableTorchFunction():
                self._begin(module, args)
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            self._tracer.fail(error)

    def leave(self, module: nn.Module, args: Any, *rest: Any) -> None:  # noqa: ARG002  torch's signature.
        """End a call. torch gives (kwargs, output) after one that returned, (None,) after one that raised."""
        try:
            if not torch._C._len_torch_function_stack():
                self._end(module, rest)
                return
            with torch._C.DisableTorchFunction():
                self._end(module, rest)
        except Exception as error:  # noqa: BLE001
            self._tracer.fail(error)

    def _begin(self, module: nn.Module, args: Any) -> None:
        tracer = self._tracer
        if torch._C._get_tracing_state() is not None:  # `torch.jit.trace` records even the reading of a shape.
            self._mode.step_aside()
            return
        entry = tracer.registry.modules.get(id(module))
        if entry is None or entry.module() is not module:
            if not tracer.registry.modules:
                self._rest()
                return
            entry = tracer.adopt(module)
            if entry is None:
                self._mode.enter(module, is_proxied=False)
                return
        stack = tracer.thread.stack
        if entry.parent is None:
            _drop_stale(stack, entry)
        thread = tracer.thread
        if not stack:
            tracer.enter_root(training=module.training)
        now = tracer.now_us()
        inputs = find_tensors(args)
        numbers = [tracer.registry.meet(tensor) for tensor in inputs]
        thread.checked.update(numbers)
        if entry.level <= INFO:
            location = tracer.locator.locate(3)
            describe = tracer.describer.describe
            entry.channel.emit(
                CallModule(
                    now,
                    tracer.step,
                    entry.id,
                    location,
                    thread.number,
                    thread.stage,
                    [describe(tensor) for tensor in inputs],
                    module.training,
                    numbers,
                    thread.ordinal(location, entry.name, tracer.step),
                ),
                location,
            )
        stack.append(ActiveCall(entry, now, id(sys.exc_info()[1])))
        self._mode.enter(module, is_proxied=True)

    def _rest(self) -> None:
        """See nothing until there is a proxied module again: the last one has been freed.

        Here, at the call of a module, and not when the last one is freed: that may be while torch walks through hooks.
        """
        thread = self._tracer.thread
        if not (thread.torch_calls or thread.suspended_calls):  # Else torch would put the mode back.
            self._tracer.remove_interceptors()

    def _end(self, module: nn.Module, rest: tuple[Any, ...]) -> None:
        stack = self._tracer.thread.stack
        entry = self._tracer.registry.modules.get(id(module))
        if entry is None or not stack:
            self._mode.leave(module)
            return
        call = stack[-1]
        if call.entry is entry:
            stack.pop()
        elif any(call.entry is entry for call in stack):
            while (call := stack.pop()).entry is not entry:  # Left by an exception that hooks are not told of.
                self._mode.leave(call.entry.module())
        else:
            self._mode.leave(module)
            return
        self._mode.leave(module)
        raised = len(rest) == 1 and id(sys.exc_info()[1]) != call.exception_id
        self._record(entry, call, raised, rest)

    def _record(self, entry: ModuleEntry, call: ActiveCall, raised: bool, rest: Any) -> None:
        tracer = self._tracer
        meet = tracer.registry.meet
        outputs = [] if raised else find_tensors(rest[-1:])
        numbers = [meet(output) for output in outputs]
        if entry.level <= INFO:
            now = tracer.now_us()
            describe = tracer.describer.describe
            given = {}
            if len(rest) == 2 and rest[0]:
                given = {key: value for key, value in rest[0].items() if isinstance(value, torch.Tensor)}
            entry.channel.emit(
                ReturnModule(
                    now,
                    tracer.step,
                    entry.id,
                    0,
                    tracer.thread.number,
                    tracer.thread.stage,
                    [describe(output) for output in outputs],
                    now - call.started_us,
                    raised,
                    {key: describe(value) for key, value in given.items()},
                    numbers,
                    {key: meet(value) for key, value in given.items()},
                )
            )
        checked = tracer.thread.checked
        new = [output for output, number in zip(outputs, numbers, strict=True) if number and number not in checked]
        checked.update(numbers)
        if new and not entry.has_been_nonfinite:
            self._check(entry, new)

    def _check(self, entry: ModuleEntry, outputs: list[torch.Tensor]) -> None:
        """Look for the first non-finite value that `entry`'s module put out."""
        with unobserved() as readable:
            for output in outputs if readable else ():
                if not has_values(output) or not (output.is_floating_point() or output.is_complex()):
                    continue
                count = count_nonfinite(output)
                if count:
                    entry.has_been_nonfinite = isinstance(count, int)
                    self._report(entry, output, count)

    def _report(self, entry: ModuleEntry, output: torch.Tensor, count: int | PendingCount) -> None:
        tracer = self._tracer
        location = tracer.locator.locate(5)
        entry.channel.emit(
            NonFinite(
                tracer.now_us(),
                tracer.step,
                entry.id,
                location,
                tracer.thread.number,
                tracer.thread.stage,
                "output",
                0,
                count,  # type: ignore[arg-type]
                tracer.describer.describe(output),
            ),
            location,
        )


class ModeSetter:
    """Does nothing at the edges of module calls; `torch_calls` does more."""

    def enter(self, module: nn.Module, *, is_proxied: bool) -> None:
        """A module is about to run."""

    def leave(self, module: nn.Module | None) -> None:
        """It has run."""

    def step_aside(self) -> None:
        """See no torch call until a proxied module runs again."""


def _drop_stale(stack: list[ActiveCall], entry: ModuleEntry) -> None:
    """Drop calls that `KeyboardInterrupt` and the like left behind, of which hooks are not told.

    Where a root is called inside another call, that call must be under way, and be none of the same root.
    """
    for depth, call in enumerate(stack):
        if call.entry is entry:
            del stack[depth:]
            return
    while stack and not is_being_called(stack[-1].entry.module()):
        stack.pop()


def is_being_called(module: nn.Module | None) -> bool:
    """Whether this thread is calling `module`; hooks are not told when `KeyboardInterrupt` ends a call."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and module is not None:
        if frame.f_code is _MODULE_CALL and frame.f_locals.get("self") is module:
            return True
        frame = frame.f_back
    return False
