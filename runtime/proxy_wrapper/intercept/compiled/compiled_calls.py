"""Creates events at the edges of compiled code; inputs and outputs are read from the frame of torch's wrapper."""

from __future__ import annotations

import sys
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

from proxy_wrapper.events import CallFunction
from proxy_wrapper.known.thread_state import CompiledCall
from proxy_wrapper.levels import DEBUG, INFO
from proxy_wrapper.values.describe import find_tensors

if TYPE_CHECKING:
    from types import FrameType

    from proxy_wrapper.intercept.calls.module_calls import ModuleCalls
    from proxy_wrapper.intercept.state.updates import Updates
    from proxy_wrapper.tracer import Tracer

_CALLED: Final = "fn"
"""The name of the called function in `torch.compile`'s wrapper, whose other variables are `args`, `kwargs` and
`result`. If a version of torch uses other names, the edges are not observed; without `result` (as in 2.6), outputs
are not."""


class CompiledCalls:
    """Records each call of a compiled module, function or optimizer step as one event.

    - `module.compile()`: as a call of the module. `torch.compile(module)` returns another module, which the module
      hooks see.
    - a function: `CallFunction` with the target "torch.compile(<name>)", at level INFO if the function has to do with
      a proxied module (it is a method of one, holds one, or is given one), else at DEBUG.
    - `optimizer.step`: as a step.
    """

    def __init__(self, tracer: Tracer, module_calls: ModuleCalls, updates: Updates) -> None:
        self._tracer = tracer
        self._module_calls = module_calls
        self._updates = updates

    def begin(self, frame: FrameType) -> CompiledCall | None:
        """Record what `frame`, that of `torch.compile`'s wrapper, is about to run. None if there is nothing to do."""
        found = frame.f_locals
        function = found.get(_CALLED)
        if function is None or not isinstance(found.get("args"), tuple):
            return None
        call = CompiledCall(function, found["args"], found.get("kwargs") or {}, self._tracer.locator.locate(4))
        owner = getattr(function, "__self__", None)
        module = _called_module(function)
        if isinstance(owner, torch.optim.Optimizer):
            self._updates.before_step(owner, (owner, *call.args), call.kwargs)
        elif module is not None:
            if self._is_inside_wrapper_of(module):
                return None
            self._module_calls.enter(module, call.args, compiled=True, kwargs=call.kwargs)
        return call

    def end(self, call: CompiledCall, frame: FrameType) -> None:
        """Record the end of what `begin` recorded."""
        owner = getattr(call.function, "__self__", None)
        module = _called_module(call.function)
        found = frame.f_locals
        if isinstance(owner, torch.optim.Optimizer):
            self._updates.after_step(owner, (owner, *call.args), call.kwargs)
        elif module is not None:
            rest = (None,) if _is_raising(frame) else (call.kwargs, found.get("result"))
            self._module_calls.leave(module, call.args, *rest)
        else:
            self._record_function(call, found.get("result"), raised=_is_raising(frame))

    def _record_function(self, call: CompiledCall, result: Any, *, raised: bool) -> None:
        tracer = self._tracer
        level = INFO if self._has_to_do_with_proxied(call) else DEBUG
        stack = tracer.thread.stack
        entry = stack[-1].entry if stack else None
        if entry is not None and entry.level > level:
            return
        with torch._C.DisableTorchFunction():
            inputs = find_tensors((*call.args, *call.kwargs.values()))
            outputs = find_tensors((result,))
            name = getattr(call.function, "__qualname__", type(call.function).__name__)
            event = CallFunction(
                tracer.now_us(), tracer.step, entry.id if entry is not None else 0, call.location,
                tracer.thread.number, tracer.thread.stage, f"torch.compile({name})",
                tuple(map(self._name, inputs)), tuple(map(self._name, outputs)),
                False, raised,
                tuple(map(tracer.registry.meet, inputs)),
                tuple(map(tracer.registry.meet, outputs)),
            )  # fmt: skip
        if entry is not None:
            entry.channel.emit(event, call.location)
        else:
            tracer.broadcast(event, call.location, level=level)

    def _name(self, tensor: torch.Tensor) -> str:
        state = self._tracer.registry.state_entry(tensor)
        return state.name if state is not None else self._tracer.describer.describe(tensor)

    def _is_inside_wrapper_of(self, module: nn.Module) -> bool:
        """Whether the module hooks have already recorded the call, as that of torch's wrapper around `module`."""
        stack = self._tracer.thread.stack
        caller = stack[-1].entry.module() if stack else None
        return caller is not None and caller.__dict__.get("_modules", {}).get("_orig_mod") is module

    def _has_to_do_with_proxied(self, call: CompiledCall) -> bool:
        is_proxied = self._tracer.registry.is_proxied
        function = call.function
        reached = [*call.args, *call.kwargs.values(), getattr(function, "__self__", None)]
        if isinstance(function, MethodType):
            function = function.__func__
        if isinstance(function, FunctionType):
            reached += [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
            reached += [function.__globals__.get(name) for name in function.__code__.co_names]
        return any(isinstance(value, nn.Module) and is_proxied(value) for value in reached)


def _called_module(function: Any) -> nn.Module | None:
    """The module if `function` is what PyTorch compiles for one (`_call_impl` or `__call__`), else None.

    For some modules of torch (`nn.Sequential`), Dynamo wraps it in another function that only serves to be compiled.
    Which modules depends on the version of torch.
    """
    if isinstance(function, FunctionType):
        function = getattr(function, "__wrapped__", function)
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__name__", "")
    is_call = isinstance(owner, nn.Module) and name in ("_call_impl", "_wrapped_call_impl", "__call__")
    return owner if is_call else None


def _is_raising(frame: FrameType) -> bool:
    """Whether an exception is propagating through `frame`, which is in a `finally` clause."""
    error = sys.exc_info()[1]
    trace = error.__traceback__ if error is not None else None
    return trace is not None and trace.tb_frame is frame


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
