"""Observes all torch calls and tensor attributes, by a `TorchFunctionMode` at the bottom of the mode stack.

At the bottom, like `torch.set_default_device`, so that modes nest that the program opens before the first proxy and
closes after it. Only the context of `torch.set_default_device` stays below ours, because it insists on being the
lowest. `with torch.device(...)` opens a mode like any other.
"""

from __future__ import annotations

import sys
import weakref
from time import perf_counter_ns
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from msgspec.structs import replace
from torch import nn
from torch.overrides import TorchFunctionMode

from proxy_wrapper.events import (
    CallFunction,
    CallMethod,
    DelAttr,
    GetAttr,
    ReadValue,
    SetAttr,
    as_number,
)
from proxy_wrapper.intercept.attaching.call_sites import DISPATCHER, CallSites, hide_frames, uncounted
from proxy_wrapper.intercept.attaching.replaced_functions import called, is_foreign
from proxy_wrapper.intercept.calls.module_calls import ModeSetter, is_being_called
from proxy_wrapper.known.thread_state import Known, ThreadFound
from proxy_wrapper.levels import DEBUG
from proxy_wrapper.values.describe import describe_plain
from proxy_wrapper.values.given_values import CallMarks, leaves_uninitialized, statistics_of
from proxy_wrapper.values.value_marks import version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import FrameType

    from proxy_wrapper.events import AnyEvent
    from proxy_wrapper.intercept.calls.blacklist import Blacklist
    from proxy_wrapper.intercept.state.optimizer_states import OptimizerStates
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.tracer import Tracer

_VALUE_READS: Final = frozenset(
    {"__bool__", "__int__", "__float__", "__complex__", "__index__", "__len__", "__contains__", "__iter__", "__array__"}
    | {"item", "tolist", "numpy", "is_nonzero", "equal", "allclose"}
)

_CALLS: Final = ("call_function", "call_method")

_LONGEST_LIST: Final = 1024
"""Lists of more values than this are not searched for tensors."""

_NO_TENSORS: Final = frozenset({int, float, bool, type(None), str, torch.dtype, torch.device, torch.Size})
"""Types of arguments that are certainly no tensors."""

_NO_KEYWORDS: Final[dict[str, Any]] = {}
_tracing_state: Final = torch._C._get_tracing_state


class Target(NamedTuple):
    """What is known of a function.

    Attributes:
        kind: the kind of its events.
        name: its name in events.
        is_foreign: whether it is not torch's own, and may replace one that is.
    """

    kind: str
    name: str
    is_foreign: bool


class TorchCallMode(TorchFunctionMode):
    """Records each call to torch. Its own code runs without the mode."""

    def __init__(self, tracer: Tracer, optimizer_states: OptimizerStates) -> None:
        super().__init__()
        self._tracer = tracer
        self._adopt = optimizer_states.adopt
        self._find_state = tracer.registry.state_entry
        self._states = tracer.registry.by_identity
        self._describe = tracer.describer.describe
        self._tensors = tracer.registry.tensors
        self._began_ns = tracer.began_ns
        self._targets: dict[Any, Target] = {}
        self._sites = CallSites()
        self.is_on = True  # Whether events are recorded; else the mode serves live observers.

    @uncounted
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call `func` and record the call."""
        thread = self._tracer.threads.state
        asking = sys._getframe(1)
        try:
            target = self._targets[func]
            if target.is_foreign:
                func, target = self._resolve(func, asking)
        except Exception:  # noqa: BLE001  New, or unhashable.
            func, target = self._resolve(func, asking)
        code = asking.f_code
        site = None if code is DISPATCHER else self._sites.codes.get((id(code), asking.f_lasti))
        call = self._sites.of(asking) if site is None else FunctionType(site, asking.f_globals)
        live = thread.live
        if live is not None and thread.change is not None:
            args, kwargs = thread.change.arguments(func, args, kwargs or _NO_KEYWORDS)  # type: ignore[assignment]
        marks = self._mark(target, args, kwargs, thread) if self._tracer.wants_all else None
        held = None if live is None else live.before_call(func, args, kwargs or _NO_KEYWORDS)
        thread.torch_calls += 1
        try:
            result = call(func, args, kwargs or _NO_KEYWORDS)
        except BaseException as error:
            if self.is_on and self._tracer.active:
                self._record(target, args, kwargs, None, thread, marks, raised=True)
            if live is not None:
                live.after_raising(held)
            hide_frames(error, 2)
            raise
        finally:
            thread.torch_calls -= 1
        if self.is_on and self._tracer.active:
            self._record(target, args, kwargs, result, thread, marks, raised=False)
        return result if live is None else live.after_call(held, result)

    def _resolve(self, func: Callable[..., Any], asking: FrameType) -> tuple[Callable[..., Any], Target]:
        """The function to call for `func`, and what is known of it."""
        try:
            key: Any = func
            if is_foreign(func):
                func = called(func, asking)
                key = getattr(func, "__code__", func)  # The function object may exist for this call alone.
            target = self._targets.get(key)
            if target is None:
                target = self._targets[key] = Target(*identify(func), is_foreign(func))
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            self._tracer.fail(error)
            target = Target("call_function", type(func).__name__, is_foreign=True)
        return func, target

    def _mark(self, target: Target, args: Any, kwargs: dict[str, Any] | None, thread: ThreadState) -> CallMarks | None:
        """Marks that later show which tensors a call has changed; None if its statistics are not recorded."""
        try:
            if target.kind not in _CALLS or _tracing_state() is not None or not self._wants_all(thread):
                return None
            return CallMarks(_find(args, kwargs), self._states)
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            self._tracer.fail(error)
            return None

    def _wants_all(self, thread: ThreadState) -> bool:
        """Whether statistics of calls and reads are recorded here; outside all modules, if any root wants them."""
        if not thread.stack:
            return self._tracer.root_wants_all
        entry = thread.stack[-1].entry
        return entry.level <= DEBUG and entry.watch.wants_all

    def _record(
        self,
        target: Target,
        args: Any,
        kwargs: dict[str, Any] | None,
        result: Any,
        thread: ThreadState,
        marks: CallMarks | None,
        *,
        raised: bool,
    ) -> None:
        tracer = self._tracer
        thread.just_given = None
        try:
            if _tracing_state() is not None:  # `torch.jit.trace` would record even reading a shape.
                return
            call = thread.stack[-1] if thread.stack else None
            if (call is not None and call.entry.level > DEBUG) or target.kind == "marker":
                return
            is_optimizer_s = False
            if call is None or thread.optimizer_frame:
                asking = sys._getframe(2)
                if (id(asking), id(asking.f_code)) in thread.optimizer_walks:  # What `locate` would find.
                    location, is_optimizer_s = thread.optimizer_location, True
                else:
                    location = tracer.locator.locate(
                        2, thread.optimizer_frame, thread.optimizer_location, thread.optimizer_walks
                    )
            else:
                location = tracer.locator.locate_inside(call, 2)
            module = call.entry.id if call is not None else 0
            if target.kind in _CALLS:
                event: AnyEvent = self._call(target, args, kwargs, result, raised, module, location, thread, marks)
            else:
                if target.kind != "get_attr" or not is_optimizer_s:
                    thread.just_read = None
                event = self._read_or_write(target, args, kwargs, result, module, location, thread)
            if call is not None:
                call.entry.channel.emit(event, location)
            else:
                tracer.broadcast(event, location, level=DEBUG)
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            tracer.fail(error)

    def _call(
        self,
        target: Target,
        args: Any,
        kwargs: dict[str, Any] | None,
        result: Any,
        raised: bool,
        module: int,
        location: int,
        thread: ThreadState,
        marks: CallMarks | None,
    ) -> CallFunction:
        inputs, input_ids = self._name_each(_find(args, kwargs), thread)
        in_place = bool(args) and result is args[0]
        given_back = [] if type(result) in _NO_TENSORS else _find((result,), None)
        outputs, output_ids = self._name_each(given_back, thread)
        statistics = changed_statistics = None
        changed: Sequence[int] = ()
        if marks is not None:
            if given_back and not leaves_uninitialized(target.name):
                statistics = statistics_of(given_back)
                if len(given_back) == 1 and output_ids[0]:
                    thread.just_given = Known(output_ids[0], version_of(given_back[0]), statistics[0])
            changed_tensors = marks.changed(given_back)
            changed = tuple(changed_tensors)
            changed_statistics = statistics_of(list(changed_tensors.values())) if changed else None
            if given_back or changed:
                thread.just_read = None
        step = self._tracer.step
        return (CallMethod if target.kind == "call_method" else CallFunction)(
            (perf_counter_ns() - self._began_ns) // 1000,
            step,
            module,
            location,
            thread.number,
            thread.stage,
            target.name,
            inputs,
            outputs,
            in_place,
            raised,
            input_ids,
            output_ids,
            thread.ordinal(location, target.name, step) if outputs else 0,
            statistics,  # type: ignore[arg-type]
            changed,
            changed_statistics,  # type: ignore[arg-type]
        )

    def _read_or_write(
        self,
        target: Target,
        args: Any,
        kwargs: dict[str, Any] | None,
        result: Any,
        module: int,
        location: int,
        thread: ThreadState,
    ) -> ReadValue | GetAttr | SetAttr | DelAttr:
        now = (perf_counter_ns() - self._began_ns) // 1000
        step, number, stage = self._tracer.step, thread.number, thread.stage
        kind, name = target.kind, target.name
        if kind == "get_attr":
            if not isinstance(result, torch.Tensor):
                owner, value = self._name(args[0]), self._describe_value(result)
                return GetAttr(now, step, module, location, number, stage, name, owner, value)
            known = self._note_read(args[0], name, result)
            owner, owner_id = self._recognize(args[0])
            value, value_id = self._recognize(result)
            ordinal = thread.ordinal(location, name, step)
            event = GetAttr(
                now, step, module, location, number, stage, name, owner, value, known, owner_id, value_id, ordinal
            )
            if self._tracer.wants_all and self._wants_all(thread):
                return replace(event, statistics=self._statistics_of_read(result, value_id, thread))
            return event
        if kind == "set_attr":
            if name == "data":
                self._suspect(args[0])
            owner, owner_id = self._recognize(args[0])
            value, value_id = self._recognize(args[1])
            return SetAttr(now, step, module, location, number, stage, name, owner, value, owner_id, value_id)
        if kind == "del_attr":
            return DelAttr(now, step, module, location, number, stage, name, self._name(args[0]))
        inputs, input_ids = self._name_each(_find(args, kwargs), thread)
        return ReadValue(now, step, module, location, number, stage, name, inputs, _scalar(result), input_ids)

    def _statistics_of_read(self, tensor: torch.Tensor, number: int, thread: ThreadState) -> Any:
        """Statistics of a tensor read as an attribute; reused if an optimizer of torch reads it again.

        Such optimizers read it two or three times, with only queries in between, such as whether it is sparse.
        """
        known, version = thread.just_read, version_of(tensor)
        if known is not None and number and (known.number, known.version) == (number, version) and version >= 0:
            return known.statistics
        (statistics,) = statistics_of((tensor,))
        thread.just_read = Known(number, version, statistics)
        return statistics

    def _name_each(
        self, tensors: Sequence[torch.Tensor], thread: ThreadState
    ) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The description and the number of each tensor."""
        if thread.optimizer is not None:
            self._adopt(thread)
        words: list[str] = []
        numbers: list[int] = []
        for tensor in tensors:
            key = id(tensor)
            state = self._states.get(key)
            if state is not None and state.tensor() is tensor:
                words.append(state.name)
                numbers.append(0)
                continue
            words.append(self._describe(tensor))
            # Inlined from `SeenTensors.meet`, to save a call.
            known = self._tensors.refs.get(key)
            numbers.append(known[1] if known is not None and not known[0].expired() else self._tensors.add(tensor))
        return tuple(words), tuple(numbers)

    def _recognize(self, value: Any) -> tuple[str, int]:
        """The description of `value`, and its number if it is a tensor without a state name, else 0."""
        if not isinstance(value, torch.Tensor):
            return self._describe_value(value), 0
        state = self._find_state(value)
        if state is not None:
            return state.name, 0
        return self._describe(value), self._tensors.meet(value)

    def _name(self, value: Any) -> str:
        if not isinstance(value, torch.Tensor):
            return type(value).__name__
        state = self._tracer.registry.state_entry(value)
        return state.name if state is not None else self._tracer.describer.describe(value)

    def _describe_value(self, value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return self._name(value)
        return describe_plain(value)

    def _note_read(self, owner: Any, name: str, result: torch.Tensor) -> bool:
        """Note that `result` was read from `owner`; whether it was known before."""
        registry = self._tracer.registry
        if name == "data":
            self._suspect(owner)
        state = registry.state_entry(owner)
        if state is None:
            return registry.is_proxied(result)
        # A gradient is a new tensor in each step, but the same variable to the reader of a trace.
        is_known = name in state.read
        state.read |= {name}
        return is_known

    def _suspect(self, owner: Any) -> None:
        """Have the next look at the model's state compare values: a change through `.data` bypasses version counts."""
        if isinstance(owner, torch.Tensor):
            state = self._tracer.registry.state_entry(owner)
            if state is not None:
                state.suspected = True


class TorchCalls(ModeSetter):
    """Keeps the mode active in every thread that runs a proxied module, and inactive in blacklisted modules.

    That includes blacklisted modules that are not proxied, because the mode is active in the rest of the program too.
    """

    def __init__(self, tracer: Tracer, blacklist: Blacklist, optimizer_states: OptimizerStates) -> None:
        self._tracer = tracer
        self._blacklist = blacklist
        self._mode = mode = TorchCallMode(tracer, optimizer_states)
        # A mode still on a thread's stack is released after the thread has ended. For that, torch waits for the
        # interpreter, and aborts the process if the interpreter is shutting down.
        tracer.threads.at_end.append(lambda: take_off(mode))

    def install(self) -> None:
        """Put the mode on the calling thread's stack; other threads get it with their next module call."""
        self.is_installed = True
        self._mode.is_on = self._tracer.is_debugging
        thread = self._tracer.thread
        if not thread.torch_calls and not thread.aside and thread.inside is None and not _is_on_stack(self._mode):
            push_lowest(self._mode)

    def remove(self) -> None:
        """Take the mode off the calling thread's stack; on others it passes everything through."""
        if self.is_installed:
            self.is_installed = self._mode.is_on = False
            take_off(self._mode)

    def enter(self, module: nn.Module, *, is_proxied: bool) -> None:
        """Put the mode on this thread's stack, or take it off for a blacklisted module."""
        thread = self._tracer.thread
        if thread.torch_calls:
            return  # Inside a torch call, torch has disabled the mode, and will restore it.
        if module in self._blacklist:
            thread.aside.append(weakref.ref(module))
            take_off(self._mode)
        elif is_proxied and (self._mode.is_on or thread.live is not None):
            if thread.aside and len(thread.stack) == 1:
                thread.aside = [ref for ref in thread.aside if is_being_called(ref())]
            if not thread.aside and not _is_on_stack(self._mode):
                push_lowest(self._mode)

    def leave(self, module: nn.Module | None) -> None:
        """Put the mode back once no blacklisted module is running."""
        thread = self._tracer.threads.state
        if not thread.aside or thread.torch_calls:
            return
        for depth, ref in enumerate(thread.aside):
            if ref() is module:
                del thread.aside[depth:]
                if not thread.aside and self.is_installed:
                    push_lowest(self._mode)
                return

    def step_aside(self) -> None:
        """Take the mode off this thread's stack until the next `enter`."""
        if not self._tracer.thread.torch_calls:
            take_off(self._mode)

    def enter_compiled(self) -> bool:
        """Take the mode off this thread's stack; True if it was there."""
        was_on_stack = _is_on_stack(self._mode)
        take_off(self._mode)
        return was_on_stack

    def leave_compiled(self) -> None:
        """Put the mode back, unless it has been removed meanwhile."""
        if self.is_installed and not _is_on_stack(self._mode):
            push_lowest(self._mode)

    def enter_engine(self) -> ThreadFound:
        """Put the mode on this thread's stack although it is inside a torch call, for autograd's engine."""
        thread = self._tracer.thread
        depth, thread.torch_calls = thread.torch_calls, 0
        thread.suspended_calls += depth
        is_put_on = self.is_installed and not thread.aside and not _is_on_stack(self._mode)
        if is_put_on:
            push_lowest(self._mode)
        return ThreadFound(depth, is_put_on)

    def leave_engine(self, found: ThreadFound) -> None:
        """Leave the thread as `enter_engine` found it."""
        if found.is_put_on:
            take_off(self._mode)
        thread = self._tracer.thread
        thread.torch_calls = found.torch_calls
        thread.suspended_calls -= found.torch_calls


def _find(args: Iterable[Any], kwargs: dict[str, Any] | None) -> list[torch.Tensor]:
    """The tensors among the arguments, and in lists and tuples among them, in order."""
    found: list[torch.Tensor] = []
    for value in (*args, *kwargs.values()) if kwargs else args:
        if type(value) in _NO_TENSORS:
            continue
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)) and len(value) <= _LONGEST_LIST:
            found += [item for item in value if isinstance(item, torch.Tensor)]
    return found


def identify(func: Callable[..., Any]) -> tuple[str, str]:
    """The kind of event for a call of `func`, and its name as `torch.fx` spells it."""
    name = getattr(func, "__name__", type(func).__name__)
    owner = getattr(func, "__self__", None)
    if name in ("__get__", "__set__", "__delete__"):
        attribute = str(getattr(owner, "__name__", None) or getattr(getattr(owner, "fget", None), "__name__", "?"))
        return {"__get__": "get_attr", "__set__": "set_attr", "__delete__": "del_attr"}[name], attribute
    if str(getattr(func, "__module__", "")).startswith("torch._ops.profiler"):
        return "marker", name  # A range marked for torch's profiler, not a call of the program.
    if name in _VALUE_READS:
        return "read_value", name
    if hasattr(func, "__objclass__") or getattr(func, "__qualname__", "").startswith("Tensor."):
        return "call_method", name
    if isinstance(owner, type):
        return "call_function", f"torch.{name}"
    module = getattr(owner, "__name__", None) or getattr(func, "__module__", None)
    return "call_function", f"{module}.{name}" if module else name


def push_lowest(mode: TorchFunctionMode) -> None:
    """Put `mode` at the bottom of this thread's stack, only above the default device."""
    default_device = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    modes = _pop_all()
    has_default_device = bool(modes) and modes[-1] is default_device
    modes.insert(len(modes) - has_default_device, mode)
    _push_all(modes)


def take_off(mode: TorchFunctionMode) -> None:
    """Take `mode` off this thread's stack, wherever it is."""
    if _is_on_stack(mode):
        _push_all([other for other in _pop_all() if other is not mode])


def _pop_all() -> list[Any]:
    """All modes of the stack, the topmost first."""
    return [torch._C._pop_torch_function_stack() for _ in range(torch._C._len_torch_function_stack())]


def _push_all(modes: list[Any]) -> None:
    for mode in reversed(modes):
        torch._C._push_on_torch_function_stack(mode)


def _is_on_stack(mode: TorchFunctionMode) -> bool:
    return any(torch._C._get_function_stack_at(depth) is mode for depth in range(torch._C._len_torch_function_stack()))


def _scalar(value: Any) -> bool | int | float | str | None:
    if isinstance(value, (bool, int)):
        return value
    return as_number(value) if isinstance(value, float) else None
