"""Follows the program into its other processes.

A forked child continues in its own trace file; a data loading worker is silent. A proxied module that
`multiprocessing` sends to another process is proxied there. Processes of `multiprocessing` end without running
`atexit`, so their end is handled here too.
"""

from __future__ import annotations

import copyreg
import os
import pickle
import sys
import traceback
import weakref
from multiprocessing import process, util
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from torch import nn

from proxy_wrapper.known.module_tree import named_modules
from proxy_wrapper.process.launch import is_multiprocessing_child

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.tracer import Tracer

_LAST: Final = -100
"""Priority of our finalizer in `multiprocessing`: after all others."""


class Processes:
    """Keeps the tracer consistent across `os.fork` and until the end of `multiprocessing` processes."""

    def __init__(self, tracer: Tracer, take_down: Callable[[], None]) -> None:
        """Prepare for `tracer`; `take_down` ends its tracing at the end of the process."""
        self._tracer = weakref.ref(tracer)  # Python never releases fork handlers.
        self._take_down = take_down
        self._is_registered = False

    def install(self) -> None:
        """Register for forks and process ends, once: Python offers no way to unregister."""
        if self._is_registered:
            return
        self._is_registered = True
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._before_fork, after_in_child=self._after_fork_in_child)
        # A `multiprocessing` process drops earlier finalizers at its start and calls this instead.
        util.register_after_fork(self, Processes._take_down_at_end)
        if is_multiprocessing_child():
            self._take_down_at_end()

    def remove(self) -> None:
        """Do nothing: the fork handlers do no harm without a writer to pause."""

    def _take_down_at_end(self) -> None:
        util.Finalize(None, self._take_down, exitpriority=_LAST)
        if sys.version_info >= (3, 13):
            _call_before_failure_is_printed(self._take_down)

    def _before_fork(self) -> None:
        tracer = self._tracer()
        if tracer is not None:
            tracer.before_fork()

    def _after_fork_in_child(self) -> None:
        tracer = self._tracer()
        if tracer is not None:
            tracer.after_fork_in_child()


class SentModule(NamedTuple):
    """The state sent with a proxied module.

    Attributes:
        state: the state that pickle would have sent.
        restore: the function that pickle would have called with it; None for the usual way.
        settings: the arguments to `Proxy` of the module, and of modules below it that have their own settings.
    """

    state: Any
    restore: Callable[[Any, Any], None] | None
    settings: list[tuple[nn.Module, dict[str, Any]]]


class SentModules:
    """Lets `multiprocessing` send the settings of proxied modules along.

    Only its own pickler is changed, and only for the outermost proxied module of what is sent. The output of `pickle`
    and `torch.save` stays the same.
    """

    def __init__(self, tracer: Tracer, arrive: Callable[[nn.Module, SentModule], None]) -> None:
        """Prepare for `tracer`; `arrive`, a picklable function, is called where a module arrives."""
        self._tracer = tracer
        self._arrive = arrive
        self._before: Any = None
        self._is_installed = False

    def install(self) -> None:
        """Extend the `reducer_override` of `multiprocessing`'s pickler."""
        if self._is_installed:
            return
        self._is_installed = True
        before = self._before = vars(ForkingPickler).get("reducer_override")
        reduce_module = self._reduce

        def reducer_override(pickler: pickle.Pickler, obj: Any) -> Any:
            reduced = before(pickler, obj) if before is not None else NotImplemented
            if reduced is NotImplemented and isinstance(obj, nn.Module):
                return reduce_module(pickler, obj)
            return reduced

        ForkingPickler.reducer_override = reducer_override  # type: ignore[method-assign]

    def remove(self) -> None:
        """Restore the pickler."""
        if not self._is_installed:
            return
        self._is_installed = False
        if self._before is not None:
            ForkingPickler.reducer_override = self._before  # type: ignore[method-assign]
        else:
            del ForkingPickler.reducer_override

    def _reduce(self, pickler: Any, module: nn.Module) -> Any:
        entry = self._tracer.registry.module_entry(module)
        covered = vars(pickler).setdefault("_proxy_wrapper_covered", set())
        if entry is None or id(module) in covered:
            return NotImplemented
        tree = named_modules(module, "")
        covered.update(id(found.module) for found in tree)
        reduced = _reduce_as_before(pickler, module)
        if isinstance(reduced, str):
            return reduced
        reduced += (None,) * (6 - len(reduced))
        make, arguments, state, items, pairs, restore = reduced
        entries = ((found.module, self._tracer.registry.module_entry(found.module)) for found in tree)
        settings = [
            (each, _settings_of(below, entry))
            for each, below in entries
            if below is not None and (below is entry or below.own_level or below.own_channel or below.own_watch)
        ]
        return make, arguments, SentModule(state, restore, settings), items, pairs, self._arrive


def restore_sent(module: nn.Module, sent: SentModule) -> None:
    """Restore the state of `module`, which has just been unpickled."""
    if sent.restore is not None:
        sent.restore(module, sent.state)
    elif sent.state is not None:
        _set_state(module, sent.state)


def _settings_of(entry: ModuleEntry, sent: ModuleEntry) -> dict[str, Any]:
    """The arguments to `Proxy` for a module: all for the sent one, only its own settings for one below."""
    settings: dict[str, Any] = {"recurse": entry.recurses}
    if entry is sent:
        settings["name"] = entry.plain_name
    if entry is sent or entry.own_channel:
        settings["logdir"] = str(Path(entry.channel.logdir).absolute())
        limits = entry.channel.limits
        settings["ranks"] = None if limits.ranks is None else str(limits.ranks)
        settings["max_size"] = limits.max_bytes
    if entry is sent or entry.own_level:
        settings["log_level"] = entry.configured_level
    fields = entry.watch.__struct_fields__ if entry is sent else entry.own_watch
    settings.update({name: getattr(entry.watch, name) for name in fields})
    return settings


def _reduce_as_before(pickler: Any, module: nn.Module) -> Any:
    """What the pickler would have done without our override."""
    reduce = pickler.dispatch_table.get(type(module)) or copyreg.dispatch_table.get(type(module))
    return reduce(module) if reduce is not None else module.__reduce_ex__(pickle.DEFAULT_PROTOCOL)


def _set_state(module: nn.Module, state: Any) -> None:
    """Set the state of an object as `pickle` does (PEP 307): `__setstate__`, else `__dict__` and slots."""
    set_state = getattr(module, "__setstate__", None)
    if set_state is not None:
        set_state(state)
        return
    plain, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    vars(module).update(plain or {})
    for name, value in (slots or {}).items():
        setattr(module, name, value)


def _call_before_failure_is_printed(take_down: Callable[[], None]) -> None:
    """Have `take_down` called while the exception is known that ends this `multiprocessing` process.

    From Python 3.13 on, `multiprocessing` drops the exception after printing it, before it ends the process.
    """
    original = traceback.print_exc

    def print_exc(*args: Any, **kwargs: Any) -> None:
        if sys._getframe(1).f_code is process.BaseProcess._bootstrap.__code__:  # type: ignore[attr-defined]
            traceback.print_exc = original
            take_down()
        original(*args, **kwargs)

    traceback.print_exc = print_exc


def reason_of_end() -> tuple[str, str]:
    """Why this process ends, as `RunEnd.reason` and `RunEnd.error`. Call it at the end of the process."""
    # `multiprocessing` ends a process while the exception propagates, the interpreter after printing it.
    error = sys.exc_info()[1]
    if error is None and not hasattr(sys, "ps1"):  # At a prompt, the last error did not end the process.
        error = getattr(sys, "last_value", None)
    if isinstance(error, SystemExit):  # `torch.multiprocessing` exits so after an error.
        error = error.__context__ if error.code not in (None, 0) else None
    return ("exception", type(error).__name__) if error is not None else ("exit", "")
