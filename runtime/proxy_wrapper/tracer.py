"""The one object behind all tracing in a process: what is proxied, where events go, what the time is."""

from __future__ import annotations

import contextlib
import platform
import secrets
import sys
import threading
import time
from datetime import datetime, timezone
from os import environ, getpid, getppid
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import torch
from torch import nn

from proxy_wrapper import __version__
from proxy_wrapper.channel import Channel
from proxy_wrapper.describe import Describer, is_plain
from proxy_wrapper.events import FORMAT, Buffer, Module, Parameter, Problem, Run
from proxy_wrapper.levels import DEBUG, INFO, WARNING, level_name
from proxy_wrapper.location import Locator
from proxy_wrapper.observers.trace_writer import TraceWriter
from proxy_wrapper.registry import ModuleEntry, Registry, StateEntry, named_modules
from proxy_wrapper.sinks.json_lines import JsonLinesSink
from proxy_wrapper.statistics import summarize, unobserved

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_wrapper.channel import Observer
    from proxy_wrapper.events import AnyEvent, Location
    from proxy_wrapper.sinks.sink import Sink

DEFAULT_LOGDIR: Final = "proxy_trace"
DEFAULT_LEVEL: Final = INFO

_MODULE_CALL: Final = nn.Module._call_impl.__code__
"""Where the walk through user code ends: what is above is the caller of the enclosing module."""


class Interceptor(Protocol):
    """A way of seeing what the program does."""

    def install(self) -> None:
        """Begin to see. Does nothing if it has begun."""

    def remove(self) -> None:
        """Leave PyTorch as it was found. Does nothing if it is."""


class ThreadState(threading.local):
    """What is known of the thread that looks at it."""

    def __init__(self) -> None:
        self.stack: list[ActiveCall] = []
        self.number = 0 if threading.current_thread() is threading.main_thread() else threading.get_native_id()
        self.optimizer_location = 0
        self.optimizer_began_us = 0
        self.torch_calls = 0


class ActiveCall:
    """A call of a proxied module that has not returned."""

    __slots__ = ("entry", "exception_id", "started_us")

    def __init__(self, entry: ModuleEntry, started_us: int, exception_id: int) -> None:
        self.entry = entry
        self.started_us = started_us
        self.exception_id = exception_id


class Tracer:
    """Registers proxied objects and sends what the interceptors see to the channels.

    It knows no torch hook; `intercept/` knows those, and calls this.
    """

    def __init__(self) -> None:
        self.registry = Registry()
        self.describer = Describer()
        self.thread = ThreadState()
        self.step = 0
        self.active = True
        self.channels: dict[str, Channel] = {}
        self.interceptors: list[Interceptor] = []
        self.debug_interceptors: list[Interceptor] = []
        self.before_flush: Callable[[], None] | None = None
        self._observers: list[Observer] = []
        self._writers: list[TraceWriter] = []
        self._locations: dict[int, Location] = {}
        self.locator = Locator(self._define_location, _MODULE_CALL)
        self._reported: set[str] = set()
        self._adopted_ids: dict[str, int] = {}
        self._parent_pid = 0
        self._is_debugging = False
        self._began_ns = time.perf_counter_ns()
        began = datetime.now(timezone.utc)
        self._started = began.isoformat(timespec="microseconds")
        self.run = f"{began:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"

    # What time it is, and where events go.

    def now_us(self) -> int:
        """Microseconds since the run started."""
        return (time.perf_counter_ns() - self._began_ns) // 1000

    def channel(self, logdir: str) -> Channel:
        """The channel of `logdir`, made and given its trace writer on first use."""
        channel = self.channels.get(logdir)
        if channel is None:
            channel = self.channels[logdir] = Channel(logdir, self._locations, self.report)
            path = str(Path(logdir).absolute())  # Now: the program may change its folder before the first write.
            writer = TraceWriter(lambda: self._open_sink(path), lambda message: self._report_loss(logdir, message))
            self._writers.append(writer)
            channel.add(writer)
            for observer in self._observers:
                channel.add(observer)
        return channel

    def add_observer(self, observer: Observer) -> None:
        """Let `observer` have the events of every channel from now on."""
        self._observers.append(observer)
        for channel in self.channels.values():
            channel.add(observer)

    def broadcast(self, event: AnyEvent, location: int = 0, *, level: int) -> None:
        """Send what concerns no one module to every channel that has a module at `level` or closer."""
        for channel in list(self.channels.values()):
            if channel.level <= level:
                channel.emit(event, location)

    def report(self, message: str) -> None:
        """Tell the user once, on standard error, and the trace."""
        if message in self._reported:
            return
        self._reported.add(message)
        with contextlib.suppress(OSError, ValueError, AttributeError):  # It may be closed, or none at all.
            sys.stderr.write(f"proxy_wrapper: {message}\n")
        self.broadcast(Problem(self.now_us(), self.step, message=message), level=WARNING)

    def fail(self, error: Exception) -> None:
        """End all tracing after a mistake of our own; training goes on."""
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

    def flush(self) -> None:
        """Look at the model's state once more, and hand everything seen so far to the operating system."""
        if self.before_flush is not None and self.active:
            try:
                with torch._C.DisableTorchFunction():
                    self.before_flush()
            except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
                self.fail(error)
        for channel in list(self.channels.values()):
            channel.flush()

    def close(self) -> None:
        """Stop seeing, write everything, close every file."""
        self.remove_interceptors()
        for channel in list(self.channels.values()):
            channel.close()
        self.channels.clear()
        self._writers.clear()

    # What is proxied.

    def attach(
        self, module: nn.Module, *, recurse: bool, logdir: str | None, level: int | None, name: str | None
    ) -> None:
        """Proxy `module`, or change the settings of one that is proxied already."""
        if not self.active:
            return
        entry = self.registry.module_entry(module)
        location = self.locator.locate(2)
        if entry is None:
            self._add_root(module, recurse=recurse, logdir=logdir, level=level, name=name, location=location)
        else:
            self._change_settings(entry, logdir=logdir, level=level, recurse=recurse)
            if recurse:
                entry.recurses = True
                self._add_tree(named_modules(module, entry.name), entry.channel, entry.level, entry.parent, location)
        self._note_levels()
        self.install_interceptors()

    def detach(self, module: nn.Module) -> None:
        """Forget `module` and all modules below it."""
        for found in named_modules(module, ""):
            entry = self.registry.module_entry(found.module)
            if entry is not None:
                self.registry.remove_module(entry)
        self._note_levels()

    def adopt(self, module: nn.Module) -> ModuleEntry | None:
        """Proxy a module that is being called: if it is called by a proxied one, or holds one.

        Returns:
            Its entry; None for a module that has nothing to do with any proxied one.
        """
        if self.registry.is_stranger(module):
            return None
        stack = self.thread.stack
        if stack:
            caller = stack[-1].entry
            return self._adopt_below(module, caller) if caller.recurses else None
        for found in named_modules(module, "")[1:]:
            inner = self.registry.module_entry(found.module)
            if inner is not None:
                self._add_tree(
                    named_modules(module, inner.root.name), inner.channel, inner.level, None, self.locator.locate(3)
                )
                return self.registry.module_entry(module)
        self.registry.note_stranger(module)
        return None

    def install_interceptors(self) -> None:
        """See what the levels in use call for."""
        if not self.active:
            return
        for interceptor in self.interceptors:
            interceptor.install()
        for interceptor in self.debug_interceptors:
            if self._is_debugging:
                interceptor.install()
            else:
                interceptor.remove()

    def _note_levels(self) -> None:
        """Work out, for each channel and for all, the closest level that a module in it has."""
        for channel in self.channels.values():
            channel.level = WARNING
        for entry in self.registry:
            entry.channel.level = min(entry.channel.level, entry.level)
        self._is_debugging = any(channel.level <= DEBUG for channel in self.channels.values())

    def remove_interceptors(self) -> None:
        """See nothing any more."""
        for interceptor in (*self.debug_interceptors, *self.interceptors):
            interceptor.remove()

    def define_state(self, states: Sequence[tuple[StateEntry, torch.Tensor]]) -> None:
        """Send the definitions of parameters and buffers, with their statistics."""
        if not states:
            return
        with unobserved() as readable:
            statistics = summarize([tensor if readable else None for _, tensor in states])
            for (state, tensor), numbers in zip(states, statistics, strict=True):
                self._note_values(state, tensor)
                state.statistics = numbers
                self._emit_state(state, tensor)

    def define_new_state(self, entry: ModuleEntry, module: nn.Module) -> None:
        """Take up parameters and buffers that `module` was given since the last look."""
        registered = module.__dict__
        count = len(registered.get("_parameters") or ()) + len(registered.get("_buffers") or ())
        if count != entry.registered:
            entry.registered = count
            self.define_state(self.registry.add_state(entry))

    @staticmethod
    def _note_values(state: StateEntry, tensor: torch.Tensor) -> None:
        state.version = version_of(tensor)
        state.data_ptr = data_ptr_of(tensor)

    # After a fork.

    def before_fork(self) -> None:
        """Let no writer be in the middle of a line."""
        for writer in self._writers:
            writer.hold()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        for writer in self._writers:
            writer.release()

    def after_fork_in_child(self, *, silent: bool) -> None:
        """Go on in a file of its own, or not at all.

        Args:
            silent: whether the child is a worker that loads data, which is nobody's model.
        """
        for writer in self._writers:
            writer.abandon()
        if silent:
            self.active = False
            self.remove_interceptors()
            return
        self._parent_pid = getppid()
        for channel in self.channels.values():
            channel.restart(lambda channel=channel: self._define_all(channel))  # type: ignore[misc]

    # How modules come in.

    def _add_root(
        self,
        module: nn.Module,
        *,
        recurse: bool,
        logdir: str | None,
        level: int | None,
        name: str | None,
        location: int,
    ) -> None:
        root_name = self.registry.unique_name(name or type(module).__name__)
        found = named_modules(module, root_name)
        tree = found if recurse else found[:1]
        inner = next(filter(None, (self.registry.module_entry(each.module) for each in tree)), None)
        # What is not said here holds as it does for what is proxied below.
        channel = inner.channel if logdir is None and inner is not None else self.channel(logdir or DEFAULT_LOGDIR)
        entries = self._add_tree(tree, channel, DEFAULT_LEVEL if level is None else level, None, location)
        entries[0].recurses = recurse
        entries[0].own_level = level is not None
        entries[0].own_channel = logdir is not None
        self.registry.forget_strangers()

    def _add_tree(
        self,
        tree: Sequence[tuple[nn.Module, str, nn.Module | None]],
        channel: Channel,
        level: int,
        above: ModuleEntry | None,
        location: int,
    ) -> list[ModuleEntry]:
        registry = self.registry
        states: list[tuple[StateEntry, torch.Tensor]] = []
        entries = []
        renamed: set[int] = set()
        for module, name, parent_module in tree:
            parent = registry.module_entry(parent_module) if parent_module is not None else above
            entry = registry.module_entry(module)
            if entry is None:
                inherited = (parent.channel, parent.level) if parent is not None else (channel, level)
                entry = registry.add_module(module, name, parent, *inherited)
                self._emit_module(entry, module, location)
            elif entry.parent is not parent or entry.name != name:
                entry.parent, entry.name = parent, name
                renamed.add(entry.id)
                self._emit_module(entry, module, location)
            for state in entry.state:
                state.name = f"{entry.name}.{state.key}"
                tensor = state.tensor()
                if entry.id in renamed and tensor is not None:
                    self._emit_state(state, tensor)
            states.extend(registry.add_state(entry))
            entries.append(entry)
        self.define_state(states)
        return entries

    def _adopt_below(self, module: nn.Module, caller: ModuleEntry) -> ModuleEntry | None:
        """Proxy a module called by a proxied one: put in after that was proxied, or made for the moment."""
        top = caller
        while top.parent is not None:
            top = top.parent
        top_module = top.module()
        if top_module is not None:
            tree = named_modules(top_module, _plain_name(top))
            if any(found.module is module for found in tree):
                self._add_tree(tree, top.channel, top.level, None, 0)
                return self.registry.module_entry(module)
        name = f"{caller.name}.{type(module).__name__}"
        entry = self.registry.add_module(module, name, caller, caller.channel, caller.level)
        # A module made anew in each forward pass is one thing to whoever reads the trace.
        if name in self._adopted_ids:
            entry.id = self._adopted_ids[name]
        else:
            self._adopted_ids[name] = entry.id
            self._emit_module(entry, module, 0)
        self.define_state(self.registry.add_state(entry))
        return entry

    def _change_settings(self, entry: ModuleEntry, *, logdir: str | None, level: int | None, recurse: bool) -> None:
        """Set what is given on `entry`, and on all below it that have no setting of their own."""
        if level is not None:
            entry.level, entry.own_level = level, True
        if logdir is not None:
            entry.channel, entry.own_channel = self.channel(logdir), True
        module = entry.module()
        if module is None or not recurse:
            return
        for found in named_modules(module, "")[1:]:
            below = self.registry.module_entry(found.module)
            if below is not None and below.parent is not None:
                if not below.own_level:
                    below.level = below.parent.level
                if not below.own_channel:
                    below.channel = below.parent.channel
        if logdir is not None:
            self._define_all(entry.channel)

    # How definitions go out.

    def _define_location(self, location: Location) -> None:
        self._locations[location.id] = location

    def _define_all(self, channel: Channel) -> None:
        for entry in self.registry:
            module = entry.module()
            if entry.channel is not channel or module is None:
                continue
            self._emit_module(entry, module, 0)
            for state in entry.state:
                tensor = state.tensor()
                if tensor is not None:
                    self._emit_state(state, tensor)

    def _emit_module(self, entry: ModuleEntry, module: nn.Module, location: int) -> None:
        parent = entry.parent if entry.parent is not None and entry.parent.channel is entry.channel else None
        parameters = sum(_elements(found.module) for found in named_modules(module, ""))
        entry.channel.emit(
            Module(
                id=entry.id,
                name=entry.name,
                type=entry.type_name,
                root=entry.root.id,
                parent=parent.id if parent is not None else 0,
                level=level_name(entry.level),
                parameters=parameters,
                location=location,
                time_us=self.now_us(),
            ),
            location,
        )

    def _emit_state(self, state: StateEntry, tensor: torch.Tensor) -> None:
        kind = Buffer if state.is_buffer else Parameter
        state.holder.channel.emit(
            kind(
                id=state.id,
                name=state.name,
                module=state.holder.id,
                type=self.describer.describe(tensor),
                device=str(tensor.device),
                requires_grad=tensor.requires_grad,
                aliases=list(state.aliases),
                statistics=state.statistics,  # type: ignore[arg-type]
                time_us=self.now_us(),
            )
        )

    # How traces begin.

    def _open_sink(self, logdir: str) -> Sink:
        run = Run(
            format=FORMAT,
            run=self.run,
            started=self._started,
            pid=getpid(),
            script=sys.argv[0] if sys.argv else "",
            argv=sys.argv[1:],
            python=platform.python_version(),
            torch=str(torch.__version__),
            version=__version__,
            rank=_environment_number("RANK", 0),
            world_size=_environment_number("WORLD_SIZE", 1),
            parent_pid=self._parent_pid,
        )
        if logdir.endswith(".log"):
            from proxy_wrapper.sinks.text_log import TextLogSink  # Few runs need the text form.

            return TextLogSink(logdir, run)
        return JsonLinesSink(logdir, run)

    def _report_loss(self, logdir: str, message: str) -> None:
        self.report(f"{logdir}: {message}")


def version_of(tensor: torch.Tensor) -> int:
    """Torch's count of in-place changes to `tensor`; -1 where it keeps none."""
    try:
        return tensor._version
    except RuntimeError:  # Made in inference mode.
        return -1


def data_ptr_of(tensor: torch.Tensor) -> int:
    """The address of the values; 0 where they have none that can be asked for without consequences."""
    if not is_plain(tensor):
        return 0
    try:
        return tensor.data_ptr()
    except (RuntimeError, NotImplementedError):  # Sparse, functorch's, or without storage.
        return 0


def _plain_name(entry: ModuleEntry) -> str:
    """The name that `named_modules` was given for a root, without the words around a wrapper's."""
    prefix = f"{entry.type_name}("
    return entry.name[len(prefix) : -1] if entry.name.startswith(prefix) else entry.name


def _elements(module: nn.Module) -> int:
    """How many elements the parameters of `module` itself have; lazy ones, none."""
    registered = module.__dict__.get("_parameters")
    total = 0
    for _, tensor in registered.items() if registered is not None else ():
        if tensor is not None:
            try:
                total += tensor.numel()
            except (ValueError, RuntimeError):
                continue
    return total


def _environment_number(name: str, default: int) -> int:
    """What launchers such as torchrun put there; read for the trace's file name, never recorded otherwise."""
    try:
        return int(environ[name])
    except (KeyError, ValueError):
        return default
