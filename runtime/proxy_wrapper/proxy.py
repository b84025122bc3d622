"""The proxy, and the few functions that a script calls.

    import proxy_wrapper.proxy as Proxy

    model = Proxy.Proxy(model, recurse=True, name="model", logdir="proxy_trace", log_level=Proxy.INFO)

`Proxy` gives back the very object that it was given, so the program trains bit for bit as before; what it does from
then on is seen through PyTorch's own extension points and written to `logdir`.
"""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING, TypeVar

from torch import nn

from proxy_wrapper.errors import SettingsTypeError
from proxy_wrapper.intercept.attributes import ModuleAttributes
from proxy_wrapper.intercept.backward import BackwardCalls
from proxy_wrapper.intercept.compiled_code import CompiledCode
from proxy_wrapper.intercept.module_calls import ModuleCalls
from proxy_wrapper.intercept.processes import Forks
from proxy_wrapper.intercept.tensor_swaps import TensorSwaps
from proxy_wrapper.intercept.torch_calls import TorchCalls
from proxy_wrapper.intercept.updates import Updates
from proxy_wrapper.levels import DEBUG, INFO, WARNING, parse_level
from proxy_wrapper.tracer import Tracer

if TYPE_CHECKING:
    from proxy_wrapper.channel import Observer

__all__ = ["DEBUG", "INFO", "WARNING", "Proxy", "flush", "is_proxied", "observe", "unproxy"]

T = TypeVar("T")


class _Installed:
    """Holds the tracer of this process: the one piece of state that the runtime keeps at module level."""

    def __init__(self) -> None:
        self.tracer: Tracer | None = None

    def get(self) -> Tracer:
        """The tracer, made and connected on first use."""
        if self.tracer is None:
            tracer = self.tracer = Tracer()
            torch_calls = TorchCalls(tracer)
            module_calls = ModuleCalls(tracer, torch_calls)
            updates = Updates(tracer)
            tracer.before_flush = updates.look
            tracer.interceptors = [
                Forks(tracer),
                module_calls,
                updates,
                BackwardCalls(tracer),
                TensorSwaps(tracer),
                CompiledCode(tracer, module_calls),
            ]
            tracer.debug_interceptors = [torch_calls, ModuleAttributes(tracer)]
            atexit.register(self.take_down)
        return self.tracer

    def take_down(self) -> None:
        """Stop tracing, write everything, and forget all that was proxied."""
        tracer, self.tracer = self.tracer, None
        if tracer is not None:
            atexit.unregister(self.take_down)
            tracer.flush()
            tracer.close()


_installed = _Installed()


class ProxyType(type):
    """The type of `Proxy`: calling it proxies an object, and `isinstance` asks whether one is proxied."""

    def __call__(
        cls,
        obj: T,
        recurse: bool = False,
        logdir: str | os.PathLike[str] | None = None,
        log_level: int | str | None = None,
        name: str | None = None,
    ) -> T:
        """Proxy `obj`, and give back `obj` itself.

        A module that is proxied already is not proxied again: only the settings given here are changed. An object
        that is no `nn.Module` comes back untouched.

        Args:
            obj: a module.
            recurse: whether its submodules are proxied with it, now and when they come in later.
            logdir: the folder that gets a subfolder for this run; if it ends in ".log", the file that gets the trace
                as text. Inherited from the module above; "proxy_trace" for a root.
            log_level: WARNING, INFO or DEBUG, as number or name. Inherited from the module above; INFO for a root.
            name: what the trace calls it; the class's name if not given.

        Raises:
            UnknownLevelError: if there is no such level.
            SettingsTypeError: if an argument is of the wrong type.
        """
        level = None if log_level is None else parse_level(log_level)
        folder = None if logdir is None else _path(logdir)
        if name is not None and not isinstance(name, str):
            raise SettingsTypeError("name", name, "a string")
        if not isinstance(recurse, (bool, int)):
            raise SettingsTypeError("recurse", recurse, "True or False")
        if isinstance(obj, nn.Module):
            tracer = _installed.get()
            try:
                tracer.attach(obj, recurse=bool(recurse), logdir=folder, level=level, name=name)
            except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
                tracer.fail(error)
        return obj

    def __instancecheck__(cls, instance: object) -> bool:
        """Whether `instance` is proxied."""
        return is_proxied(instance)


Proxy: ProxyType = ProxyType(
    "Proxy",
    (),
    {"__doc__": ProxyType.__call__.__doc__, "__module__": __name__, "__slots__": ()},
)


def is_proxied(obj: object) -> bool:
    """Whether `obj` is traced: a proxied module, of its state, or a tensor that went into one or came out of one."""
    tracer = _installed.tracer
    return tracer is not None and tracer.registry.is_proxied(obj)


def unproxy(obj: T) -> T:
    """Stop tracing the module `obj` and those below it, and give it back; with the last one all hooks go."""
    tracer = _installed.tracer
    if tracer is not None and isinstance(obj, nn.Module):
        tracer.detach(obj)
        if tracer.registry.modules:
            tracer.install_interceptors()
        else:
            _installed.take_down()
    return obj


def flush() -> None:
    """Return once everything that happened so far is in the trace's file."""
    tracer = _installed.tracer
    if tracer is not None:
        tracer.flush()


def observe(observer: Observer) -> None:
    """Let `observer` have every event from now on, of all proxied modules, beside the trace that is written."""
    _installed.get().add_observer(observer)


def _path(logdir: str | os.PathLike[str]) -> str:
    """The path as a string.

    Raises:
        SettingsTypeError: if it is none.
    """
    try:
        return os.fsdecode(logdir)
    except TypeError:
        raise SettingsTypeError("logdir", logdir, "a path") from None
