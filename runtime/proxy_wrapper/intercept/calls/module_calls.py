"""Observes module calls through PyTorch's global module hooks.

They are global because hooks on a module itself switch off fast paths that look for them
(`nn.TransformerEncoderLayer`), which changes the last bits of the results.
"""

from __future__ import annotations

import os
import sys
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

from proxy_wrapper.events import CallModule, ReturnModule
from proxy_wrapper.intercept.attaching.global_hooks import GlobalHooks
from proxy_wrapper.intercept.calls.active_dropouts import ActiveDropouts
from proxy_wrapper.intercept.calls.broadcast_counts import BroadcastCounts, may_count
from proxy_wrapper.intercept.calls.byte_differences import ByteDifferences, may_subtract
from proxy_wrapper.intercept.calls.callers import Callers
from proxy_wrapper.intercept.calls.inputs import Inputs
from proxy_wrapper.intercept.calls.output_softmaxes import OutputSoftmaxes, may_take_softmax
from proxy_wrapper.intercept.calls.outputs import Outputs, is_known_finite
from proxy_wrapper.intercept.calls.repeated_positions import RepeatedPositions
from proxy_wrapper.intercept.calls.thresholds import Thresholds, may_compare
from proxy_wrapper.intercept.calls.unhooked_tracebacks import show_as_unhooked
from proxy_wrapper.intercept.calls.viewed_inputs import ViewedInputs
from proxy_wrapper.kept_statistics import STATE
from proxy_wrapper.known.module_tree import named_modules
from proxy_wrapper.known.thread_state import UNKNOWN, ActiveCall, Known
from proxy_wrapper.levels import INFO
from proxy_wrapper.live import enter_compiled
from proxy_wrapper.loss_graph.loss_nodes import last_node_of
from proxy_wrapper.program_code.outermost_calls import is_discarded
from proxy_wrapper.values.describe import find_tensors
from proxy_wrapper.values.given_values import statistics_of
from proxy_wrapper.values.statistics import is_certainly_finite
from proxy_wrapper.values.value_marks import version_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, FrameType

    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.live import ChangingObserver, LiveObserver
    from proxy_wrapper.tracer import Tracer
    from proxy_wrapper.values.statistics import PendingOr

_MODULE_CALL: Final = nn.Module._call_impl.__code__
_count_function_modes: Final = torch._C._len_torch_function_stack
_tracing_state: Final = torch._C._get_tracing_state
_is_grad_enabled: Final = torch.is_grad_enabled

_TORCH: Final = os.path.join(os.path.dirname(torch.__file__), "")  # noqa: PTH118, PTH120  As in code objects.
"""The folder of torch's own code."""

_MOST_CALLS: Final = 1000
"""The most places of calls that are read in search of a dropped result."""

_TO_CALL: Final = 3
"""The number of frames from `_begin` up to `_call_impl`: `enter` and `inner`, which calls hooks, lie between."""

_PASSED: Final = 2
"""The number of torch's frames from there on in an ordinary call: `_wrapped_call_impl` is the other one."""

_NO_KEYWORDS: Final[dict[str, Any]] = {}
_NO_WORDS: Final[dict[str, str]] = {}
_NO_NUMBERS: Final[dict[str, int]] = {}
"""Shared by nearly all calls, which have no keyword tensors; never written to. Saves two objects per record."""


class ModuleCalls:
    """Creates `CallModule` and `ReturnModule` events, and `NonFinite` events for outputs.

    `_begin` and `_end` run for each call of each module, so they are inlined and look up each value once.
    """

    def __init__(self, tracer: Tracer, on_enter: ModeSetter) -> None:
        """Observe for `tracer`.

        Args:
            tracer: receives the events.
            on_enter: notified of each call, to switch the observation of torch calls on and off.
        """
        self._tracer = tracer
        self._threads = tracer.threads
        self._modules = tracer.registry.modules
        self._meet = tracer.registry.meet
        self._describe = tracer.describer.describe
        self._began_ns = tracer.began_ns
        self._locate_inside = tracer.locator.locate_inside
        self._mode = on_enter
        self._outputs = Outputs(tracer)
        self._inputs = Inputs(tracer)
        self._viewed_inputs = ViewedInputs(tracer)
        self._dropouts = ActiveDropouts(tracer)
        self._callers = Callers(tracer)
        self._thresholds = Thresholds(tracer)
        self._counts = BroadcastCounts(tracer)
        self._output_softmaxes = OutputSoftmaxes(tracer)
        self._positions = RepeatedPositions(tracer)
        self._differences = ByteDifferences(tracer)
        # For each place of a call, with the id of its code: the code, and whether the result is dropped there.
        self._discarded: dict[tuple[int, int], tuple[CodeType, bool]] = {}
        self._hooks = GlobalHooks(
            torch.nn.modules.module,
            {
                "_global_forward_hooks_with_kwargs": True,
                "_global_forward_hooks_always_called": True,
                "_global_forward_hooks": self.leave,
                "_global_forward_pre_hooks": self.enter,
            },
        )

    def install(self) -> None:
        """Register the hooks."""
        self._hooks.put_in()

    def remove(self) -> None:
        """Remove the hooks."""
        self._hooks.take_out()

    def without_ours(self, value: Any) -> Any:
        """What torch would have in place of `value`, one of its registries of hooks, without ours."""
        return self._hooks.without_ours(value)

    def is_alone(self) -> bool:
        """Whether there are no other global module hooks."""
        modules = torch.nn.modules.module
        has_others = modules._global_backward_pre_hooks or modules._global_backward_hooks
        return not has_others and self._hooks.are_alone()

    def enter(
        self, module: nn.Module, args: Any, *, compiled: bool = False, kwargs: dict[str, Any] | None = None
    ) -> None:
        """Begin a call of `module` with the positional arguments `args`.

        Args:
            module: the called module.
            args: its positional arguments.
            compiled: whether nothing inside the call is observed.
            kwargs: its keyword arguments; None to read them from the calling frame, as torch does not pass them on.
        """
        live = None
        try:
            thread = self._threads.state
            if thread.inside is not None:
                return
            live = thread.live
            # The rest makes no tensor calls that a function mode would see, except when the model's state is examined
            # before the outermost call.
            if live is not None and not self._modules:
                self._mode.enter(module, is_proxied=False)
            elif thread.stack and not _count_function_modes():
                self._begin(module, args, thread, compiled=compiled)
            else:
                with torch._C.DisableTorchFunction():
                    self._begin(module, args, thread, compiled=compiled)
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            self._tracer.fail(error)
        if live is not None:
            given = sys._getframe(1).f_locals.get("kwargs") if kwargs is None else kwargs
            if compiled:
                enter_compiled(live, module, args, given or _NO_KEYWORDS)
            else:
                live.enter(module, args, given or _NO_KEYWORDS)

    def leave(self, module: nn.Module, args: Any, *rest: Any) -> Any:
        """End a call. Torch passes (kwargs, output) after a return, (None,) after an exception.

        Returns:
            What the program gets in place of the output; None for the output itself.
        """
        live = None
        try:
            thread = self._threads.state
            if thread.inside is not None:
                self._hide_traceback(module, rest)
                return None
            live = thread.live
            if live is not None and not self._modules:
                if thread.aside:
                    self._mode.leave(module)
            elif not _count_function_modes() and not thread.aside:  # Otherwise our mode may be restored meanwhile.
                self._end(module, args, rest, thread)
            else:
                with torch._C.DisableTorchFunction():
                    self._end(module, args, rest, thread)
        except Exception as error:  # noqa: BLE001
            self._tracer.fail(error)
        return None if live is None else _leave_live(live, thread.change, module, rest)

    def _begin(self, module: nn.Module, args: Any, thread: ThreadState, *, compiled: bool) -> None:
        tracer = self._tracer
        if _tracing_state() is not None:  # `torch.jit.trace` would record even reading a shape.
            self._mode.step_aside()
            return
        mode = self._mode
        entry = self._modules.get(id(module))
        if entry is None or entry.module() is not module:
            if not self._modules:
                self._stop_observing()
                return
            entry = tracer.adopt(module)
            if entry is None:
                if mode.is_installed:
                    mode.enter(module, is_proxied=False)
                return
        stack = thread.stack
        if entry.parent is None:
            _drop_stale(stack, entry)
            tracer.take_in(entry, stack)
        thread.just_given = None
        now = (perf_counter_ns() - self._began_ns) // 1000
        if stack:
            enclosing = stack[-1]
            counts = enclosing.ordinals
            location = self._locate_inside(enclosing, _TO_CALL, _PASSED) if entry.level <= INFO else UNKNOWN
        else:
            tracer.enter_root(entry, training=module.training)
            counts = thread.outer_ordinals(tracer.step)
            location = tracer.locator.locate(_TO_CALL) if entry.level <= INFO else UNKNOWN
        if len(args) == 1 and type(args[0]) is torch.Tensor:
            number = self._meet(args[0])
            numbers: tuple[int, ...] = (number,)
            words: tuple[str, ...] = (self._describe(args[0]),)
            input_versions = thread.checked[number] = version_of(args[0])
        else:
            inputs = find_tensors(args)
            numbers = tuple(map(self._meet, inputs))
            words = tuple(map(self._describe, inputs))
            versions = tuple(map(version_of, inputs))
            thread.checked.update(zip(numbers, versions, strict=True))
            input_versions = sum(versions)
        if entry.level <= INFO:
            place = (location, entry.name)
            counts[place] = ordinal = counts.get(place, -1) + 1
            no_grad = not (stack or _is_grad_enabled())
            entry.channel.emit(
                CallModule(
                    now,
                    tracer.step,
                    entry.id,
                    location,
                    thread.number,
                    thread.stage,
                    words,
                    module.training,
                    numbers,
                    ordinal,
                    compiled,
                    no_grad,
                    not stack and module.training and self._is_around_wrapper(entry),
                    no_grad and module.training and self._is_discarded(sys._getframe(_TO_CALL)),
                ),
                location,
            )
            if not stack:
                self._look_closer(entry, args, location, thread, is_seen=not compiled)
        frame = sys._getframe(_TO_CALL)
        running = id(frame) if frame.f_code is _MODULE_CALL else 0
        stack.append(ActiveCall(entry, now, id(sys.exc_info()[1]), location, running, 0, input_versions, {}))
        if thread.draws is not None or mode.is_installed:
            self._has_begun(module, entry, thread)

    def _has_begun(self, module: nn.Module, entry: ModuleEntry, thread: ThreadState) -> None:
        """Notify the observers that are rarely active."""
        if thread.draws is not None:
            thread.draws.enter(entry)
        if self._mode.is_installed:
            self._mode.enter(module, is_proxied=True)

    def _look_closer(self, entry: ModuleEntry, args: Any, location: int, thread: ThreadState, *, is_seen: bool) -> None:
        """Examine what is only examined in the first outermost calls of a module."""
        module = entry.module()
        if module is None:
            return
        frame = self._callers.frame_at(location)
        if frame is not None:
            self._read_caller(frame, entry, location, thread)
        if module.training:
            if entry.input_looks:
                if not entry.was_called:
                    self._viewed_inputs.look(entry, args, location, thread)
                self._inputs.look(entry, args, location, thread)
            return
        if entry.evaluation_looks and entry.was_called:
            self._inputs.look(entry, args, location, thread, is_evaluation=True)
        if entry.dropout_looks and is_seen:
            entry.dropout_looks -= 1
            self._dropouts.begin(thread)

    def _read_caller(self, frame: FrameType, entry: ModuleEntry, location: int, thread: ThreadState) -> None:
        """Examine the code that calls an outermost module."""
        compares, counts = may_compare(frame), may_count(frame.f_code)
        takes_softmax = may_take_softmax(frame.f_code)
        subtracts = may_subtract(frame.f_code)
        is_read = compares or counts or takes_softmax or subtracts
        caller = self._callers.caller(frame, entry) if is_read else None
        if caller is not None and subtracts:
            self._differences.look_at_caller(caller, thread)
        if caller is not None and compares:
            self._thresholds.look(caller, entry, location, thread)
        if caller is not None and counts:
            self._counts.begin(caller, entry, location)
        if caller is not None and takes_softmax:
            self._output_softmaxes.look(caller, entry, location, thread)

    def _is_discarded(self, frame: FrameType | None) -> bool:
        """Whether the function that calls a module drops its result; `frame` is that of `_call_impl`."""
        while frame is not None and frame.f_code.co_filename == _MODULE_CALL.co_filename:
            frame = frame.f_back
        if frame is None:
            return False
        key = (id(frame.f_code), frame.f_lasti)
        known = self._discarded.get(key)
        if known is None and len(self._discarded) < _MOST_CALLS:
            known = self._discarded[key] = frame.f_code, is_discarded(frame)
        return known is not None and known[1]

    def _note_drawn(self, entry: ModuleEntry | None, thread: ThreadState) -> None:
        """Note the random numbers that a module has drawn in evaluation mode."""
        if thread.draws is not None and entry is not None:
            thread.draws.leave(entry)
        if not thread.stack:
            self._dropouts.end(thread)

    def _is_around_wrapper(self, entry: ModuleEntry) -> bool:
        """Whether a module called for training belongs to a distributed wrapper that is bypassed."""
        wrapped = self._tracer.wrapped_models
        above: ModuleEntry | None = entry
        while wrapped and above is not None and _is_grad_enabled():
            module = above.module()
            if module is not None and module in wrapped:
                return True
            above = above.parent
        return False

    def _stop_observing(self) -> None:
        """Observe nothing until there is a proxied module again: the last one has been freed.

        This happens at a module call rather than when the last one is freed: torch may then be iterating over hooks.
        """
        thread = self._tracer.thread
        if not (thread.torch_calls or thread.suspended_calls):  # Otherwise torch would restore the mode.
            self._tracer.rest()

    def _hide_traceback(self, module: nn.Module, rest: tuple[Any, ...]) -> None:
        """Clean the traceback of an error in a module that is called inside compiled code."""
        error = sys.exc_info()[1] if len(rest) == 1 and rest[0] is None else None
        if error is not None and self.is_alone():
            show_as_unhooked(module, error)

    def _end(self, module: nn.Module, args: Any, rest: tuple[Any, ...], thread: ThreadState) -> None:
        entry = self._modules.get(id(module))
        stack = thread.stack
        call = self._pop(entry, stack)
        if thread.aside:
            self._mode.leave(module)
        if thread.draws is not None:
            self._note_drawn(entry, thread)
        if entry is None or call is None:
            return
        output = rest[-1]
        if type(output) is torch.Tensor:
            raised = False
            outputs: Sequence[torch.Tensor] = (output,)
            numbers: Sequence[int] = (self._meet(output),)
            words: tuple[str, ...] = (self._describe(output),)
        else:
            raised = len(rest) == 1 and self._has_raised(module, call)
            outputs = [] if raised else find_tensors((output,))
            numbers = tuple(map(self._meet, outputs))
            words = tuple(map(self._describe, outputs))
        statistics: Sequence[PendingOr] | None = None
        if not stack and entry.level <= INFO:
            self._note_last(entry, call, outputs, thread)
        if entry.level <= INFO:
            keywords, keyword_ids = _NO_WORDS, _NO_NUMBERS
            if len(rest) == 2 and rest[0]:
                keywords, keyword_ids = self._describe_keywords(rest[0])
            if outputs and entry.watch.statistics != STATE:
                statistics = self._statistics_of_outputs(entry, module, outputs, numbers, thread)
            now = (perf_counter_ns() - self._began_ns) // 1000
            entry.channel.emit(
                ReturnModule(
                    now,
                    self._tracer.step,
                    entry.id,
                    0,
                    thread.number,
                    thread.stage,
                    words,
                    now - call.started_us,
                    raised,
                    keywords,
                    numbers,
                    keyword_ids,
                    statistics,  # type: ignore[arg-type]
                    bool(entry.gradient_looks) and self._is_cut_off(entry, call, args, rest, outputs, thread),
                )
            )
        if len(outputs) == 1:  # The usual case, without creating a list.
            self._check(entry, outputs[0], numbers[0], thread, statistics[0] if statistics else None)
        else:
            for output, number, known in zip(outputs, numbers, statistics or [None] * len(outputs), strict=True):
                self._check(entry, output, number, thread, known)
        if not raised and _sum_of_versions(args) != call.input_versions:
            self._check_inputs(entry, args, thread)

    def _note_last(
        self, entry: ModuleEntry, call: ActiveCall, outputs: Sequence[torch.Tensor], thread: ThreadState
    ) -> None:
        """Note where the graph of a root module ends; a target network called without one has no part in the loss."""
        with torch._C.DisableTorchFunction():
            last = last_node_of(outputs)
        if last >= 0:
            thread.last_node_of_model, thread.last_model = last, entry
        if self._counts.pending:
            self._counts.end(entry, call.location, outputs, thread)

    def _is_cut_off(
        self,
        entry: ModuleEntry,
        call: ActiveCall,
        args: Any,
        rest: tuple[Any, ...],
        outputs: Sequence[torch.Tensor],
        thread: ThreadState,
    ) -> bool:
        """Examine one of the first calls in training; returns whether no gradient can flow from its outputs."""
        module = entry.module()
        if module is None or not (module.training and outputs):
            return False
        entry.gradient_looks -= 1
        self._positions.look(entry, args, rest[0], call.location, thread)
        self._differences.look(entry, args, rest[0], thread)
        return _are_cut_off(module, outputs)

    def _has_raised(self, module: nn.Module, call: ActiveCall) -> bool:
        """Whether a call has ended by an exception, whose traceback is then cleaned."""
        error = sys.exc_info()[1]
        if error is None or id(error) == call.exception_id:
            return False
        if self.is_alone():
            show_as_unhooked(module, error)
        return True

    def _check_inputs(self, entry: ModuleEntry, args: Any, thread: ThreadState) -> None:
        """Check the arguments of a module that has changed some in place."""
        for tensor in find_tensors(args):
            self._check(entry, tensor, self._meet(tensor), thread, None)

    def _statistics_of_outputs(
        self,
        entry: ModuleEntry,
        module: nn.Module,
        outputs: Sequence[torch.Tensor],
        numbers: Sequence[int],
        thread: ThreadState,
    ) -> Sequence[PendingOr]:
        """Statistics of a module's outputs; reused if the last call inside it has just returned the same tensor.

        A layer of torch returns the result of a torch function, and `nn.Sequential` that of its last module. If no code
        of the program runs in between, the values are the same.
        """
        known, thread.just_given = thread.just_given, None
        if len(outputs) != 1 or not numbers[0]:
            return statistics_of(outputs)
        number, version = numbers[0], version_of(outputs[0])
        is_alone = self.is_alone()
        if (
            known is not None
            and (known.number, known.version) == (number, version)
            and version >= 0
            and is_alone
            and _is_torchs_own(module)
        ):
            statistics = known.statistics
        else:
            (statistics,) = statistics_of(outputs)
        if is_alone and entry.calls_seen and not module.__dict__.get("_forward_hooks"):
            thread.just_given = Known(number, version, statistics)
        return (statistics,)

    def _check(
        self,
        entry: ModuleEntry,
        tensor: torch.Tensor,
        number: int,
        thread: ThreadState,
        known: PendingOr,
    ) -> None:
        """Check a tensor for non-finite values, unless its values have been checked already.

        Args:
            entry: the module that returned it, or wrote into it.
            tensor: what to check.
            number: its number in the trace.
            thread: the thread that called the module.
            known: its statistics, if there are any.
        """
        version = version_of(tensor)
        if number and thread.checked.get(number) != version:
            thread.checked[number] = version
            if not (entry.has_been_nonfinite or is_known_finite(known) or is_certainly_finite(tensor)):
                self._outputs.check(entry, tensor, thread, known)

    def _pop(self, entry: ModuleEntry | None, stack: list[ActiveCall]) -> ActiveCall | None:
        """Pop the call of `entry` off the stack; None if it is not there."""
        if stack and stack[-1].entry is entry:
            return stack.pop()
        return self._pop_to(entry, stack) if entry is not None else None

    def _pop_to(self, entry: ModuleEntry, stack: list[ActiveCall]) -> ActiveCall | None:
        """Pop the call of `entry` and the calls above it, which is not the usual case; None if it is not there."""
        if not any(call.entry is entry for call in stack):
            return None
        while (call := stack.pop()).entry is not entry:  # Ended by an exception of which hooks are not notified.
            self._mode.leave(call.entry.module())
        return call

    def _describe_keywords(self, given: dict[str, Any]) -> tuple[dict[str, str], dict[str, int]]:
        """The description and the number of each tensor passed by keyword."""
        words, numbers = {}, {}
        for key, value in given.items():
            if isinstance(value, torch.Tensor):
                words[key], numbers[key] = self._describe(value), self._meet(value)
        return words, numbers


def _leave_live(live: LiveObserver, change: ChangingObserver | None, module: nn.Module, rest: tuple[Any, ...]) -> Any:
    """Tell `live` how a call has ended; the arguments and result are those of `leave`."""
    if len(rest) == 1:
        live.leave_raising(module)
        return None
    output = live.leave(module, rest[1] if change is None else change.before_leave(module, rest[1]))
    return None if output is rest[1] else output


def _sum_of_versions(args: Any) -> int:
    """The summed version counts of the tensors among `args`."""
    if len(args) == 1 and type(args[0]) is torch.Tensor:
        return version_of(args[0])
    return sum(map(version_of, find_tensors(args)))


def _is_torchs_own(module: nn.Module) -> bool:
    """Whether only torch's own code runs between the last call inside a module and its end, if there are no hooks."""
    code = getattr(type(module).forward, "__code__", None)
    return code is not None and code.co_filename.startswith(_TORCH) and "forward" not in module.__dict__


class ModeSetter:
    """Does nothing at the edges of module calls; `torch_calls` has a subclass that does."""

    is_installed = False
    """Whether it is to be notified of module calls."""

    def enter(self, module: nn.Module, *, is_proxied: bool) -> None:
        """Note that a module is about to run."""

    def leave(self, module: nn.Module | None) -> None:
        """Note that it has run."""

    def step_aside(self) -> None:
        """Observe no torch call until a proxied module runs again."""


def _drop_stale(stack: list[ActiveCall], entry: ModuleEntry) -> None:
    """Drop calls that `KeyboardInterrupt` and the like ended, of which hooks are not notified.

    If a root is called inside another call, that call must be running, and belong to another root.
    """
    for depth, call in enumerate(stack):
        if call.entry is entry:
            del stack[depth:]
            return
    while stack and not is_being_called(stack[-1].entry.module()):
        stack.pop()


def is_being_called(module: nn.Module | None) -> bool:
    """Whether this thread is inside a call of `module`, by its frames: hooks may have missed the end of a call."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and module is not None:
        if frame.f_code is _MODULE_CALL and frame.f_locals.get("self") is module:
            return True
        frame = frame.f_back
    return False


def _are_cut_off(module: nn.Module, outputs: Sequence[torch.Tensor]) -> bool:
    """Whether no gradient can flow from a training module's outputs to its parameters."""
    with torch._C.DisableTorchFunction():
        if any(each.requires_grad for each in outputs):
            return False
        return any(
            tensor is not None and tensor.requires_grad
            for below in named_modules(module, "")
            for tensor in list((below.module.__dict__.get("_parameters") or {}).values())
        )
