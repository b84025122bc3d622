"""Steps aside while a thread is in compiled code, so that `torch.compile` compiles the same code as without us.

Nothing in that thread is observed, and its function modes are the program's. Other threads are observed as usual.
`dynamo_view` hides our changes to process-wide state from Dynamo. `compiled_calls` records the calls from outside.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

import torch

from proxy_wrapper.intercept.attaching.call_sites import hide_frames, uncounted
from proxy_wrapper.known.thread_state import Inside
from proxy_wrapper.process.after_import import AfterImport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType, ModuleType

    from proxy_wrapper.intercept.calls.module_calls import ModuleCalls
    from proxy_wrapper.intercept.calls.torch_calls import TorchCalls
    from proxy_wrapper.intercept.compiled.compiled_calls import CompiledCalls
    from proxy_wrapper.intercept.compiled.dynamo_view import DynamoView
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.tracer import Interceptor, Tracer

_EVAL_FRAME: Final = "torch._dynamo.eval_frame"
_SWITCH: Final = "_maybe_set_eval_frame"
_EXPORT_TRACE: Final = "torch.export._trace"
_EXPORT: Final = "_export"
_HOOK_QUESTION: Final = "_has_any_global_hook"
_skip_code: Final = getattr(torch._C._dynamo.eval_frame, "skip_code", None)
"""If torch has this (2.6), Dynamo stays on while it is switched off, and would compile our code that does so."""


class CompiledCode:
    """Detects whether a thread is in compiled code, by Dynamo's calls to switch itself on and off.

    `torch.export` captures without that switch, so its entry is watched too. Meanwhile, everything is removed for all
    threads. Both functions are private to torch. If a version lacks one, it is not replaced, and Dynamo sees our
    changes.
    """

    def __init__(
        self,
        tracer: Tracer,
        module_calls: ModuleCalls,
        torch_calls: TorchCalls,
        calls: CompiledCalls,
        view: DynamoView,
        hidden_from_export: Sequence[Interceptor],
    ) -> None:
        self._tracer = tracer
        self._module_calls = module_calls
        self._torch_calls = torch_calls
        self._calls = calls
        self._view = view
        self._hidden_from_export = tuple(hidden_from_export)
        self._originals: list[tuple[ModuleType, str, Any, Any]] = []
        self._waiting: list[AfterImport] = []
        self._is_installed = False
        self._is_wanted = False

    def install(self) -> None:
        """Watch Dynamo, now or once it is imported."""
        self._is_wanted = True
        if self._is_installed:
            return
        self._is_installed = True
        self._view.install()
        self._replace(torch.nn.modules.module, _HOOK_QUESTION, lambda original: self._has_other_hook(original))
        self._watch(_EVAL_FRAME, _SWITCH, self._switch)
        self._watch(_EXPORT_TRACE, _EXPORT, self._around)

    def remove(self) -> None:
        """Restore Dynamo as soon as no thread is in compiled code; until then, leaving must be observed."""
        self._is_wanted = False
        if not self._is_installed or self._is_anyone_inside():
            return
        self._is_installed = False
        self._view.remove()
        for module, name, original, replacement in self._originals:
            if getattr(module, name) is replacement:
                setattr(module, name, original)
        self._originals.clear()
        for each in self._waiting:
            each.give_up()
        self._waiting.clear()

    def _is_anyone_inside(self) -> bool:
        threads = self._tracer.threads
        return any(thread.inside is not None for thread in (threads.state, *threads.others()))

    def _watch(self, module: str, name: str, make: Callable[[Any], Any]) -> None:
        """Replace a function of `module`, now or once it is imported."""
        self._waiting.append(AfterImport(module, lambda imported: self._replace(imported, name, make)))

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
                self._view.hide()
                return original(callback)
            before = original(callback)  # First: otherwise Dynamo would compile our code.
            self._view.show()
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
            self._view.hide()
            try:
                return original(*args, **kwargs)
            except BaseException as error:
                hide_frames(error)
                raise
            finally:
                self._enter_or_leave(False, me)

        return stepped_aside

    def _enter_or_leave(self, is_entering: bool, switcher: int, frame: FrameType | None = None) -> None:
        """Step aside when a thread first enters compiled code, and come back when that same entry leaves.

        While compiling, Dynamo calls its own disabled functions, which switch it off and then back to "off".

        Args:
            is_entering: whether compiled code is about to run, or has run.
            switcher: what enters or leaves.
            frame: that of `torch.compile`'s wrapper, if that is what enters or leaves.
        """
        thread = self._tracer.thread
        outermost = thread.inside
        try:
            if is_entering and outermost is None:
                call = self._calls.begin(frame) if frame is not None and self._tracer.active else None
                hidden = self._view.throughout if frame is not None else self._hidden_from_export
                had_mode = self._torch_calls.enter_compiled()
                thread.inside = Inside(switcher, call, had_mode, hidden, is_hiding=False, is_export=frame is None)
                self._view.tell_of(hidden)
            elif not is_entering and outermost is not None and outermost.switcher == switcher:
                self._leave(thread)
                if outermost.call is not None and frame is not None and self._tracer.active:
                    self._calls.end(outermost.call, frame)
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            self._tracer.fail(error)

    def _leave(self, thread: ThreadState) -> None:
        tracer = self._tracer
        with tracer.lock:
            self._view.show(is_leaving=True)
            inside, thread.inside = thread.inside, None
            if inside is not None and inside.had_mode:
                self._torch_calls.leave_compiled()
            if not self._is_wanted:
                self.remove()

    def _has_other_hook(self, original: Callable[[], bool]) -> Callable[[], bool]:
        """An answer for `OptimizedModule`, which warns of global hooks, that ignores ours."""

        def has_other_hook() -> bool:
            return original() and not self._module_calls.is_alone()

        return has_other_hook


def _switcher(frame: FrameType) -> int:
    """The identity of what switches Dynamo: a call of a compiled function, or a context manager."""
    if frame.f_code.co_name in ("__enter__", "__exit__"):
        return id(frame.f_locals.get("self"))
    return id(frame)
