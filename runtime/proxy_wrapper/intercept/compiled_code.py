"""Steps aside while compiled code runs, so that `torch.compile` compiles what it would compile without us.

Dynamo traces through global hooks, function modes and whatever stands in `nn.Module.__getattr__`; with ours in
place it would break the graph, or refuse under `fullgraph=True`. So everything is removed when a thread enters
compiled code and installed again when it leaves; what `compiled_calls` records is seen from outside.
"""

from __future__ import annotations

import functools
import sys
import threading
from importlib.abc import Loader, MetaPathFinder
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from proxy_wrapper.intercept.call_sites import hide_frames, uncounted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import FrameType, ModuleType

    from proxy_wrapper.intercept.compiled_calls import CompiledCall, CompiledCalls
    from proxy_wrapper.intercept.module_calls import ModuleCalls
    from proxy_wrapper.tracer import Tracer

_EVAL_FRAME: Final = "torch._dynamo.eval_frame"
_SWITCH: Final = "_maybe_set_eval_frame"
_EXPORT_TRACE: Final = "torch.export._trace"
_EXPORT: Final = "_export"
_HOOK_QUESTION: Final = "_has_any_global_hook"
_skip_code: Final = getattr(torch._C._dynamo.eval_frame, "skip_code", None)
"""Where torch has this (2.6), Dynamo is on while it is switched off, and would compile what does that."""


class Inside(NamedTuple):
    """A thread in compiled code: what entered there, and the call that it is, where that is recorded."""

    switcher: int
    call: CompiledCall | None


class CompiledCode:
    """Tells from Dynamo's switching itself on and off whether a thread is in compiled code.

    `torch.export` captures without that switch, so its one entry is watched too. Both functions are private to
    torch; where a version of it has no such function, nothing is replaced, and Dynamo sees what it sees.
    """

    def __init__(self, tracer: Tracer, module_calls: ModuleCalls, calls: CompiledCalls) -> None:
        self._tracer = tracer
        self._module_calls = module_calls
        self._calls = calls
        self._inside: dict[int, Inside] = {}
        self._originals: list[tuple[ModuleType, str, Any, Any]] = []
        self._finders: list[_AfterImport] = []
        self._is_installed = False

    def install(self) -> None:
        """Watch Dynamo now, or once it is imported."""
        if self._is_installed:
            return
        self._is_installed = True
        self._replace(torch.nn.modules.module, _HOOK_QUESTION, lambda original: self._has_other_hook(original))
        self._watch(_EVAL_FRAME, _SWITCH, self._switch)
        self._watch(_EXPORT_TRACE, _EXPORT, self._around)

    def remove(self) -> None:
        """Leave Dynamo as it was found; not while it runs, since then the removal is only ours to step aside."""
        if not self._is_installed or self._inside:
            return
        self._is_installed = False
        for module, name, original, replacement in self._originals:
            if getattr(module, name) is replacement:
                setattr(module, name, original)
        self._originals.clear()
        for finder in self._finders:
            finder.give_up()
        self._finders.clear()

    def _watch(self, module: str, name: str, make: Callable[[Any], Any]) -> None:
        """Replace a function of `module` now, or once that is imported."""
        if module in sys.modules:
            self._replace(sys.modules[module], name, make)
        else:
            self._finders.append(_AfterImport(module, lambda imported: self._replace(imported, name, make)))

    def _replace(self, module: ModuleType, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(module, name, None)
        if original is not None:
            replacement = make(original)
            self._originals.append((module, name, original, replacement))
            setattr(module, name, replacement)

    def _switch(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def switched(callback: Any) -> Any:
            frame = sys._getframe(1)
            if callback is not None:
                self._enter_or_leave(True, _switcher(frame), frame)
                return original(callback)
            before = original(callback)  # First: until then Dynamo would compile what we do.
            self._enter_or_leave(False, _switcher(frame), frame)
            return before

        if _skip_code is not None:
            _skip_code(switched.__code__)
        return switched

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def stepped_aside(*args: Any, **kwargs: Any) -> Any:
            me = id(sys._getframe())
            self._enter_or_leave(True, me)
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                hide_frames(error)
                raise
            finally:
                self._enter_or_leave(False, me)

        return stepped_aside

    def _enter_or_leave(self, is_entering: bool, switcher: int, frame: FrameType | None = None) -> None:
        """Step aside at the outermost entry of a thread, and come back when what entered there leaves.

        While it compiles, Dynamo calls disabled functions of its own, which switch it off and back to "off".

        Args:
            is_entering: whether compiled code is about to run, or has run.
            switcher: what enters or leaves.
            frame: that of `torch.compile`'s wrapper, if it is one that enters or leaves.
        """
        thread = threading.get_ident()
        outermost = self._inside.get(thread)
        try:
            if is_entering and outermost is None:
                call = self._calls.begin(frame) if frame is not None and self._tracer.active else None
                self._inside[thread] = Inside(switcher, call)
                self._tracer.remove_interceptors()
            elif not is_entering and outermost is not None and outermost.switcher == switcher:
                del self._inside[thread]
                if not self._inside:
                    self._tracer.install_interceptors()
                if outermost.call is not None and frame is not None and self._tracer.active:
                    self._calls.end(outermost.call, frame)
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            self._tracer.fail(error)

    def _has_other_hook(self, original: Callable[[], bool]) -> Callable[[], bool]:
        """An answer for `OptimizedModule`, which warns of global hooks, that leaves ours out."""

        def has_other_hook() -> bool:
            return original() and not self._module_calls.is_alone()

        return has_other_hook


def _switcher(frame: FrameType) -> int:
    """What switches Dynamo: one call of a compiled function, or one context manager."""
    if frame.f_code.co_name in ("__enter__", "__exit__"):
        return id(frame.f_locals.get("self"))
    return id(frame)


class _AfterImport(MetaPathFinder, Loader):
    """Calls back once a module has been imported, and is gone."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._then = then
        self._loader: Any = None
        sys.meta_path.insert(0, self)

    def give_up(self) -> None:
        """Wait no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002  The protocol's.
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        self.give_up()
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            self._loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._then(module)
