"""The object behind all tracing in a process. It knows what is proxied, where events go, and the time."""

from __future__ import annotations

import contextlib
import sys
import time
import weakref
from collections import Counter
from datetime import datetime, timezone
from os import getppid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch
from torch import nn

from proxy_wrapper.events import EVAL, TRAIN, Gradient, NonFinite, Problem, RunEnd, StateTensor
from proxy_wrapper.intercept.attaching.eager_stance import EagerStance
from proxy_wrapper.known.configurations import Configurations
from proxy_wrapper.known.definitions import Definitions
from proxy_wrapper.known.module_tree import has_state, named_modules
from proxy_wrapper.known.proxied_tree import ProxiedTree, settings_of
from proxy_wrapper.known.registry import Registry
from proxy_wrapper.known.thread_state import ThreadStates
from proxy_wrapper.levels import DEBUG, INFO, WARNING
from proxy_wrapper.live import joined, without
from proxy_wrapper.places.location import Locator
from proxy_wrapper.process.launch import Launch, RankFinder, is_data_worker
from proxy_wrapper.process.signal_handlers import comes_from_signal_handler
from proxy_wrapper.program_code.parsed_functions import ParsedFunctions
from proxy_wrapper.values.describe import Describer
from proxy_wrapper.writing.channel import Channel
from proxy_wrapper.writing.observers.trace_writer import TraceWriter
from proxy_wrapper.writing.sinks.open_sink import open_sink

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from proxy_wrapper.events import AnyEvent, Location
    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.known.thread_state import ActiveCall, ThreadFound, ThreadState
    from proxy_wrapper.known.watch import Watch
    from proxy_wrapper.limits import Limits, Ranks
    from proxy_wrapper.live import ChangingObserver, LiveFlow, LiveObserver
    from proxy_wrapper.writing.channel import Observer
    from proxy_wrapper.writing.sinks.sink import Sink


_MODULE_CALL: Final = nn.Module._call_impl.__code__
"""Where the walk through user code ends: frames above belong to the caller of the enclosing module."""


class Interceptor(Protocol):
    """Observes one kind of activity of the program."""

    def install(self) -> None:
        """Start observing. Does nothing if already installed."""

    def remove(self) -> None:
        """Restore PyTorch's original state. Does nothing if not installed."""


class FlowInterceptor(Interceptor, Protocol):
    """Observes the control flow of the program."""

    def add_live(self, module: nn.Module, observer: LiveFlow) -> None:
        """Notify `observer` of conditions and loops in the calls of `module`, proxied or not, on this thread."""

    def remove_live(self, observer: LiveFlow) -> None:
        """Stop notifying it."""


class InsideTorchCalls(Protocol):
    """Makes torch calls inside a torch call observable, although torch has taken all function modes off the stack."""

    def enter_engine(self) -> ThreadFound:
        """Push the mode on this thread's stack."""

    def leave_engine(self, found: ThreadFound) -> None:
        """Restore the thread's previous state."""


class Tracer:
    """Registers proxied objects and sends what the interceptors see to the channels.

    It has no knowledge of torch's hooks. These are in `intercept/`, which calls this class.

    What is proxied, what is installed, and what is known about the models' state is changed only under `lock`. A call
    of a known module takes it only at the outermost level. It is reentrant, because a signal handler of the program may
    call the function that it interrupted.
    """

    def __init__(self, lock: threading.RLock) -> None:
        self.lock = lock
        self.registry = Registry(lock)
        self.describer = Describer()
        self.threads = ThreadStates({}, [])
        self.step = 0
        self.iteration = 0
        self.stage: str | None = None
        self.active = True
        self.is_closed = False
        self.channels: dict[str, Channel] = {}
        self.interceptors: list[Interceptor] = []
        self.debug_interceptors: list[Interceptor] = []
        self.live_interceptors: list[Interceptor] = []
        # The models inside distributed wrappers.
        self.wrapped_models: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._changes = 0
        self._eager_stance: EagerStance | None = None
        self.torch_calls: InsideTorchCalls | None = None
        self._live_blocks = 0  # The number of live observers, on all threads.
        self.ends_with_blocks = False  # Whether the last module was unproxied in such a block.
        self.flow_steps: FlowInterceptor | None = None  # One of `interceptors`.
        self.before_flush: Callable[[], None] | None = None
        self.before_root_call: Callable[[], None] | None = None
        self._before_event: Callable[[], None] | None = None
        # Whether conditions are recorded for any module; the channels of those evaluated outside all modules.
        self.wants_flow = False
        self.flow_channels: tuple[Channel, ...] = ()
        self._observers: list[Observer] = []
        self._writers: list[TraceWriter] = []
        self._locations: dict[int, Location] = {}
        self.locator = Locator(self._define_location, _MODULE_CALL)
        self.functions = ParsedFunctions(lock)
        self.definitions = Definitions(self.registry, self.describer, self.now_us, self.locator, self.functions)
        self._tree = ProxiedTree(self.registry, self.definitions, self.channel)
        self.configurations = Configurations(self.channels, self.now_us, lambda: (self.step, self.thread))
        self._reported: set[str] = set()
        self._parent_pid = 0
        self.ranks = RankFinder()
        self.is_sampling = False
        self.is_debugging = False
        # Whether statistics of results of torch calls are wanted: by any module; for calls outside all modules.
        self.wants_all = self.root_wants_all = False
        # Whether tensors of optimizer state are tracked.
        self.follows_optimizers = False
        self._hidden: Counter[Interceptor] = Counter()
        self._watches: set[Watch] = set()
        self.began_ns = time.perf_counter_ns()
        self._started = datetime.now(timezone.utc).isoformat(timespec="microseconds")

    @property
    def thread(self) -> ThreadState:
        """The state of the calling thread."""
        return self.threads.state

    @property
    def writers(self) -> Sequence[TraceWriter]:
        """The trace writers of all channels."""
        return tuple(self._writers)

    # Time and channels.

    def now_us(self) -> int:
        """Microseconds since the run started."""
        return (time.perf_counter_ns() - self.began_ns) // 1000

    def channel(self, logdir: str) -> Channel:
        """The channel of `logdir`, created with its trace writer on first use."""
        with self.lock:
            channel = self.channels.get(logdir)
            if channel is not None:
                return channel
            channel = Channel(logdir, self._locations, self.report, self.lock)
            path = str(Path(logdir).absolute())  # Now: the program may change its folder before the first write.
            writer = TraceWriter(
                lambda: self._open_sink(path, channel.limits),
                lambda message: self._report_loss(logdir, message),
                self._may_begin,
                self._name_tensor,
                self._note_hidden_change,
                channel.limits,
                lambda is_end: self._is_chosen(channel.limits.ranks, is_final=is_end),
            )
            self._writers.append(writer)
            channel.before_event = self._before_event
            channel.add(writer)
            for observer in self._observers:
                channel.add(observer)
            self.channels[logdir] = channel
            return channel

    @property
    def before_event(self) -> Callable[[], None] | None:
        """A function that every channel calls before each event. Setting it sets it for all channels."""
        return self._before_event

    @before_event.setter
    def before_event(self, told: Callable[[], None] | None) -> None:
        with self.lock:
            self._before_event = told
            for channel in self.channels.values():
                channel.before_event = told

    def add_observer(self, observer: Observer) -> None:
        """Pass the events of every channel to `observer` from now on."""
        with self.lock:
            self._observers.append(observer)
            for channel in self.channels.values():
                channel.add(observer)

    def broadcast(self, event: AnyEvent, location: int = 0, *, level: int, also: Sequence[int] = ()) -> None:
        """Send an event that concerns no single module to each channel that has a module at `level` or below.

        `also` are further locations to which the event refers.
        """
        for channel in list(self.channels.values()):
            if channel.level <= level:
                for other in also:
                    channel.define_location(other)
                channel.emit(event, location)

    def report(self, message: str) -> None:
        """Report a message once, on standard error and in the trace."""
        if message in self._reported:
            return
        self._reported.add(message)
        with contextlib.suppress(OSError, ValueError, AttributeError):  # It may be closed or missing.
            sys.stderr.write(f"proxy_wrapper: {message}\n")
        self._record_problem(message)

    def note_problem(self, message: str) -> None:
        """Record a message once, in the trace only: the run is fine, but something is missing from the trace."""
        if message not in self._reported:
            self._reported.add(message)
            self._record_problem(message)

    def _record_problem(self, message: str) -> None:
        self.broadcast(Problem(self.now_us(), self.step, stage=self.thread.stage, message=message), level=WARNING)

    def fail(self, error: Exception) -> None:
        """End all tracing after an error in our own code. Training goes on.

        Raises:
            Exception: `error` itself, if it is the program's: a signal handler raised it while our code ran.
        """
        if comes_from_signal_handler(error):
            raise error
        if not self.active:
            return
        self.active = False
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        where = f" ({Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno})" if at is not None else ""
        self.remove_interceptors()
        self.report(
            f"tracing failed with {type(error).__name__}: {error}{where}, and has stopped at step {self.step}; "
            "training goes on untraced. Please report this."
        )

    def enter_root(self, entry: ModuleEntry, *, training: bool) -> None:
        """A thread calls a proxied module outside any other proxied module."""
        self.note_use(entry)
        thread = self.thread
        thread.enter_root()
        thread.mode = TRAIN if training else EVAL
        thread.stage = self.stage or thread.mode
        with self.lock:
            self.configurations.look(with_autocast=True)
            if self.before_root_call is not None:
                self.before_root_call()

    def note_use(self, entry: ModuleEntry) -> None:
        """Note that this thread uses the model of `entry`: it proxies, calls or steps it."""
        top, thread = entry.top, self.thread
        top.user = weakref.ref(thread)
        if top.training is not thread.training:
            if top.training is not None:
                thread.training.go_on_from(top.training)
            top.training = thread.training

    def is_alone(self) -> bool:
        """Whether no other running thread has used proxied models.

        This cannot change while the lock is held: each thread takes it before it first calls, steps or proxies a model.
        """
        return len(self.threads.known) == 1

    def is_used_elsewhere(self, entry: ModuleEntry, thread: ThreadState) -> bool:
        """Whether the model of `entry` was last used by a running thread other than `thread`."""
        user = entry.top.user
        found = None if user is None else user()
        return found is not None and found is not thread

    def set_stage(self, name: str | None) -> str | None:
        """Name the stage, for all threads; None names it after the mode of the model.

        Returns:
            The previous name.
        """
        before, self.stage = self.stage, name
        self.thread.stage = name or self.thread.mode
        return before

    def end_step(self, *, ends_iteration: bool) -> None:
        """Count a step of an optimizer. If it ends an iteration, turn recording on or off as the settings require."""
        with self.lock:
            self.step += 1
            self.thread.steps += 1
            if ends_iteration:
                self.iteration += 1
                before, now = self.iteration - 1, self.iteration
                if self.is_sampling and any(watch.records(before) != watch.records(now) for watch in self._watches):
                    self._note_levels()
                    self.install_interceptors()

    def flush(self) -> None:
        """Check the model's state once more, and write everything seen so far to the file."""
        if self.before_flush is not None and self.active:
            try:
                with self.lock, torch._C.DisableTorchFunction():
                    self.before_flush()
            except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
                self.fail(error)
        if self._before_event is not None:
            self._before_event()
        for channel in list(self.channels.values()):
            channel.flush()

    def close(self, reason: str, error: str = "") -> None:
        """Stop observing, write everything and finally the reason for the end (see `RunEnd`), and close all files."""
        if not self.active:
            reason, error = "failed", ""
        self.end()
        for channel in list(self.channels.values()):
            channel.emit(RunEnd(self.now_us(), self.step, stage=self.thread.stage, reason=reason, error=error))
            channel.close()
        with self.lock:
            self.channels.clear()
            self._writers.clear()

    def end(self) -> None:
        """Stop observing for good. Objects proxied later get another tracer."""
        with self.lock:
            self.is_closed = True
            self.remove_interceptors()

    # Proxied modules.

    def attach(
        self,
        module: nn.Module,
        *,
        recurse: bool,
        logdir: str | None,
        level: int | None,
        name: str | None,
        watch: Mapping[str, Any],
        ranks: Ranks | None = None,
        max_bytes: int | None = None,
    ) -> None:
        """Proxy `module`, or change its settings if it is proxied already; `watch` has fields of `Watch`.

        `ranks` and `max_bytes` (see `Limits`) apply to the whole `logdir`. If the rank is not chosen, nothing is
        traced.
        """
        if not self._is_chosen(ranks):
            return
        location = self.locator.locate(2)
        frame = self.locator.user_frame(2)
        with self.lock:
            if not self.active:
                return
            entry = self.registry.module_entry(module)
            function = None if frame is None else frame.f_code
            if entry is None:
                self._tree.add_root(module, recurse, logdir, level, name, watch, location, function)
            else:
                self._tree.change_settings(entry, logdir=logdir, level=level, watch=watch, recurse=recurse)
                wanted = self._tree.name_for(entry, name, function)
                if recurse or wanted != entry.name:
                    entry.recurses |= recurse
                    tree = named_modules(module, wanted)[: None if entry.recurses else 1]
                    self._tree.add_tree(tree, settings_of(entry), entry.parent, location)
            known = self.registry.module_entry(module)
            if known is not None:
                self.note_use(known)
                known.channel.limits.update(ranks, max_bytes)
            self._note_levels()
            self.configurations.look(with_autocast=True)
            self.install_interceptors()

    def _is_chosen(self, ranks: Ranks | None, *, is_final: bool = False) -> bool:
        """Whether this process may be one that writes a trace. If `is_final`, one without a rank counts as rank 0."""
        if ranks is None or not (is_final or self.ranks.is_known()):
            return True
        return self.ranks.look().rank in ranks

    def detach(self, module: nn.Module) -> None:
        """Forget `module` and all modules below it."""
        with self.lock:
            for found in named_modules(module, ""):
                entry = self.registry.module_entry(found.module)
                if entry is not None:
                    self.registry.remove_module(entry)
            self._note_levels()

    def adopt(self, module: nn.Module) -> ModuleEntry | None:
        """Proxy a module that is being called, if a proxied one calls it, or if it holds or is part of a proxied one.

        Returns:
            Its entry; None if it is unrelated to all proxied modules.
        """
        stack = self.thread.stack
        if not stack and self.registry.is_stranger(module):
            return None
        with self.lock:
            return self._adopt_below(module, stack[-1].entry) if stack else self._adopt(module)

    def _adopt_below(self, module: nn.Module, caller: ModuleEntry) -> ModuleEntry | None:
        entry = self._tree.adopt_below(module, caller) if caller.recurses else None
        if self.is_sampling or self.wants_flow:
            self._note_levels()
            self._follow_flow()
        return entry

    def take_in(self, entry: ModuleEntry, stack: Sequence[ActiveCall]) -> None:
        """Make a root that is called by another one part of it, if it has the name of its place there."""
        if not stack or entry.was_sought:
            return
        with self.lock:
            entry.was_sought = True
            if self._tree.take_in(entry, stack[-1].entry.top):
                self._note_levels()
                self._follow_flow()

    def _adopt(self, module: nn.Module) -> ModuleEntry | None:
        tree = named_modules(module, "")
        for found in tree[1:]:
            inner = self.registry.module_entry(found.module)
            if inner is not None:
                self._tree.adopt_above(module, inner, self.locator.locate(4))
                self._note_levels()
                self._follow_flow()
                return self.registry.module_entry(module)
        if has_state(module) and self.take_up_new():
            entry = self.registry.module_entry(module)
            if entry is not None:
                return entry
        for found in tree:  # Their own calls will follow.
            self.registry.note_stranger(found.module)
        return None

    def take_up_new(self) -> bool:
        """Proxy modules added to proxied ones later. Returns whether there were any.

        This is the only chance if a program calls methods of its model instead of the model.
        """
        with self.lock:
            found_any = self._tree.take_up_new()
            if found_any:
                self._note_levels()
                self._follow_flow()
            return found_any

    def _follow_flow(self) -> None:
        """Record the conditions of newly found modules, if requested."""
        if self.wants_flow and self.active and self.flow_steps is not None:
            self.flow_steps.install()

    # Interceptors.

    def install_interceptors(self) -> None:
        """Install what the current levels require, and remove the rest."""
        with self.lock:
            if not self.active or self.is_closed:
                return
            for interceptor in self.interceptors:
                if not self._hidden[interceptor]:
                    interceptor.install()
            for interceptor in self.debug_interceptors:
                if not self.is_debugging and not (self._live_blocks and interceptor in self.live_interceptors):
                    interceptor.remove()
                elif not self._hidden[interceptor]:
                    interceptor.install()

    @property
    def is_observed_live(self) -> bool:
        """Whether any thread has a live observer."""
        return self._live_blocks > 0

    def add_live(self, observer: LiveObserver) -> None:
        """Let `observer` see the calls of this thread until `remove_live`, even if nothing is proxied."""
        with self.lock:
            thread = self.thread
            thread.live = joined(thread.live, observer, thread.change)
            self._live_blocks += 1
            self._install_for_live()

    def add_change(self, observer: ChangingObserver) -> None:
        """Let `observer` replace values computed by this thread, until `remove_live`. It replaces the previous one."""
        with self.lock:
            thread = self.thread
            if thread.change is not None:
                self.remove_live(thread.change)
            thread.change = observer
            self.add_live(observer)

    def count_change(self, more: int) -> None:
        """Count observers that change values, on all threads. While there are any, compiled code runs eagerly."""
        self._changes += more
        if self._changes and self._eager_stance is None:
            self._eager_stance = EagerStance()
        elif not self._changes and self._eager_stance is not None:
            self._eager_stance.end()
            self._eager_stance = None

    def remove_live(self, observer: LiveObserver, thread: ThreadState | None = None) -> None:
        """Remove an observer of `thread` (the calling one if not given)."""
        with self.lock:
            thread = thread or self.thread
            thread.live = without(thread.live, observer)
            if thread.change is observer:
                thread.change = None
            self._live_blocks -= 1
            if self.registry.modules:
                self.install_interceptors()
            elif not self._live_blocks:
                self.remove_interceptors()

    def _install_for_live(self) -> None:
        if self.active and not self.is_closed:
            for interceptor in self.live_interceptors:
                if not self._hidden[interceptor]:
                    interceptor.install()

    def remove_interceptors(self) -> None:
        """Stop observing."""
        with self.lock:
            for interceptor in (*self.debug_interceptors, *self.interceptors, *self.live_interceptors):
                interceptor.remove()

    def rest(self) -> None:
        """Stop observing if the last proxied module has been freed, until there is one again."""
        with self.lock:
            if not self.registry.modules and not self._live_blocks:
                self.remove_interceptors()

    def hide(self, interceptors: Iterable[Interceptor]) -> None:
        """Remove `interceptors` until `show` has been called equally often."""
        with self.lock:
            for interceptor in interceptors:
                self._hidden[interceptor] += 1
                interceptor.remove()

    def show(self, interceptors: Iterable[Interceptor]) -> None:
        """Install `interceptors` again, except those hidden by another call."""
        with self.lock:
            for interceptor in interceptors:
                self._hidden[interceptor] -= 1
            if self.registry.modules:  # Else `module_calls` has removed all of them.
                self.install_interceptors()
            if self._live_blocks:
                self._install_for_live()

    def _note_levels(self) -> None:
        """Compute the most detailed level of the modules of each channel, and what depends on the settings of all."""
        levels = dict.fromkeys(self.channels.values(), WARNING)
        watches = set()
        for entry in self.registry:
            watches.add(entry.watch)
            entry.level = entry.configured_level if entry.watch.records(self.iteration) else WARNING
            levels[entry.channel] = min(levels.get(entry.channel, WARNING), entry.level)
        for channel, level in levels.items():  # Only now, because other threads read it.
            channel.level = level
        self._watches = watches
        self.is_sampling = any(watch.every > 1 for watch in watches)
        self.is_debugging = any(level <= DEBUG for level in levels.values())
        following = [entry for entry in self.registry if entry.watch.flow]
        self.wants_flow = bool(following)
        self.flow_channels = tuple({entry.channel for entry in following if entry.level <= INFO})
        wanting = [entry for entry in self.registry if entry.level <= DEBUG and entry.watch.wants_all]
        self.root_wants_all = any(entry.parent is None for entry in wanting)
        self.wants_all = bool(wanting)
        self.follows_optimizers = self.is_debugging or any(
            entry.level <= INFO and entry.watch.wants_all for entry in self.registry
        )

    # Forks.

    def before_fork(self) -> None:
        """Pause our threads."""
        for writer in list(self._writers):
            writer.pause()

    def after_fork_in_child(self) -> None:
        """Continue in a new file."""
        for writer in self._writers:
            writer.abandon()
        self._parent_pid = getppid()
        for channel in self.channels.values():
            channel.restart(lambda channel=channel: self._begin_again(channel))  # type: ignore[misc]

    def _begin_again(self, channel: Channel) -> None:
        self.definitions.define_all(channel)
        self.configurations.begin_again(channel)

    def _may_begin(self) -> bool:
        """Whether this process is to be traced. A worker of a data loader is not; all its interceptors are removed."""
        if not is_data_worker():
            return True
        self.active = False
        self.remove_interceptors()
        return False

    # The start of a trace.

    def _define_location(self, location: Location) -> None:
        self._locations[location.id] = location

    def _open_sink(self, logdir: str, limits: Limits) -> Sink:
        launch = Launch.of_this_process().announce()
        return open_sink(logdir, launch, self._started, self._parent_pid, self.ranks, limits)

    def _note_hidden_change(self, tensor: int) -> None:
        """Compare the values of a parameter or buffer at every check from now on."""
        state = self.registry.state.get(tensor)
        if state is not None:
            state.bypasses_version = True

    def _name_tensor(self, event: AnyEvent) -> str:
        """What the statistics in `event` describe, in words."""
        if isinstance(event, StateTensor):
            return event.name
        target = getattr(event, "target", "")
        if target:
            return f"the result of `{target}`"
        id_ = getattr(event, "tensor", 0)
        state = self.registry.state.get(id_) or self.registry.optimizer_state.get(id_)
        if state is None:
            entry = next((entry for entry in self.registry if entry.id == getattr(event, "module", 0)), None)
            return f"the output of {entry.name}" if entry is not None else "a tensor that no longer exists"
        return f"the gradient of {state.name}" if _is_of_gradient(event) else state.name

    def _report_loss(self, logdir: str, message: str) -> None:
        self.report(f"{logdir}: {message}")


def _is_of_gradient(event: AnyEvent) -> bool:
    return isinstance(event, Gradient) or (isinstance(event, NonFinite) and event.where == "gradient")
