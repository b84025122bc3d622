"""Keeps the places of warnings as they are without tracing.

`warnings.warn("...", stacklevel=3)` names the caller of its caller. Where that is on the other side of a module's
`forward`, the function through which torch calls modules with hooks (`unhooked_calls.py`) would count as one caller
more: another line would be named, and the filters, which go by the module of that line, might decide otherwise. So
would the calls through which a mode of ours sees torch's own functions, at DEBUG.
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import TYPE_CHECKING, Any, Final

from torch.jit import _builtins

from proxy_wrapper.intercept.call_sites import DISPATCHER, hide_frames, uncounted
from proxy_wrapper.intercept.replacing import ReplacingInterceptor, Target
from proxy_wrapper.intercept.unhooked_calls import CALL, WITHOUT_HOOKS, has_own_hooks
from proxy_wrapper.places.location import STAND_IN, UNCOUNTED

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from proxy_wrapper.intercept.module_calls import ModuleCalls
    from proxy_wrapper.tracer import Tracer


_SCRIPTED: Final = "aten::warn"
"""What calls of `warnings.warn` are in TorchScript."""


class UnhookedWarnings(ReplacingInterceptor):
    """Stands for `warnings.warn`, and passes over the calls that are there for us alone."""

    def __init__(self, tracer: Tracer, module_calls: ModuleCalls) -> None:
        super().__init__(tracer)
        self._module_calls = module_calls
        self._made: dict[Callable[..., None], Callable[..., None]] = {}

    def install(self) -> None:
        """Stand for it to TorchScript as well, which knows the functions that it can compile by identity."""
        super().install()
        for each in self._replaced:
            _let_script_know(each.replacement)

    def remove(self) -> None:
        """Put it back, and have TorchScript forget what stood for it."""
        for each in self._replaced:
            _let_script_forget(each.replacement)
        super().remove()

    def _targets(self) -> tuple[Target, ...]:
        return (Target(warnings, "warn", self._warner),)

    def _warner(self, original: Callable[..., None]) -> Callable[..., None]:
        """What stands for `original`: always the same, since compiled code asks whether it is."""
        if original not in self._made:
            self._made[original] = self._make(original)
        return self._made[original]

    def _make(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        @uncounted
        def warn(message: Any, category: Any = None, stacklevel: Any = 1, source: Any = None, **newer: Any) -> None:
            try:
                distance, moved = self._place(sys._getframe(1), stacklevel, newer.get("skip_file_prefixes", ()))
                if not distance:
                    original(message, category, stacklevel, source, **newer)
                elif moved is None or WITHOUT_HOOKS is None:
                    # Called from a file that is passed over, as ours is, it counts each of the callers.
                    original(message, category, distance, source)
                else:
                    kind = type(message) if isinstance(message, Warning) else category or UserWarning
                    scope, file = moved.f_globals, moved.f_code.co_filename
                    registry = scope.setdefault("__warningregistry__", {})
                    line, module = WITHOUT_HOOKS.line, scope["__name__"]
                    warnings.warn_explicit(message, kind, file, line, module, registry, None, source)
            except BaseException as error:
                hide_frames(error)
                raise

        warn.__module__ = warnings.__name__  # There it is found when it is unpickled.
        return warn

    # A plain tuple: Dynamo, where it looks on, would compile what makes a named one.
    def _place(self, caller: FrameType, stacklevel: Any, prefixes: Any) -> tuple[int, FrameType | None]:
        """What a warning of `caller` is about, counted as `warnings.warn` counts.

        Returns:
            How many calls above the call of `warn` that is, plus one; 0 if what was given is nothing to count by. And
            the frame, if it is at another line without hooks.
        """
        if type(stacklevel) is not int or type(prefixes) is not tuple:
            return 0, None
        level = max(2, stacklevel) if prefixes else stacklevel
        counts_all = level <= 0 or _is_passed_over(caller, ())
        frame, distance, is_past_ours = caller, 2, False
        while level > 1:
            above, steps, is_past_ours = self._above(frame)
            distance += steps
            if above is None:
                return distance, None
            frame = above
            if counts_all or not _is_passed_over(frame, prefixes):
                level -= 1
        return distance, frame if is_past_ours and frame.f_code is CALL else None

    def _above(self, frame: FrameType) -> tuple[FrameType | None, int, bool]:
        """What would be above `frame` without us, how far above it is, and whether a call for hooks lies between."""
        above, steps = frame.f_back, 1
        if above is not None and above.f_code.co_name == STAND_IN:
            while above is not None and (above.f_code.co_name == STAND_IN or above.f_code.co_filename == UNCOUNTED):
                above, steps = above.f_back, steps + 1
            if above is not None and above.f_code is DISPATCHER and above.f_back is not None:
                above, steps = above.f_back.f_back, steps + 2
        elif above is not None and self._is_for_ours(above):
            return above.f_back, 2, True
        return above, steps, False

    def _is_for_ours(self, frame: FrameType) -> bool:
        """Whether a call would not be there without hooks of ours."""
        if WITHOUT_HOOKS is None or frame.f_code is not WITHOUT_HOOKS.inner:
            return False
        return self._module_calls.is_alone() and not has_own_hooks(frame.f_locals["self"])


def _let_script_know(warn: Callable[..., None]) -> None:
    """Have TorchScript compile calls of `warn` as it does those of `warnings.warn`."""
    _builtins._builtin_ops.append((warn, _SCRIPTED))  # The table is made of it when something is first scripted.
    if _builtins._builtin_table is not None:
        _builtins._builtin_table[id(warn)] = _SCRIPTED


def _let_script_forget(warn: Callable[..., None]) -> None:
    """Undo that: another function may get the same id later."""
    _builtins._builtin_ops[:] = [each for each in _builtins._builtin_ops if each[0] is not warn]
    if _builtins._builtin_table is not None:
        _builtins._builtin_table.pop(id(warn), None)


def _is_passed_over(frame: FrameType, prefixes: tuple[Any, ...]) -> bool:
    """Whether `warnings.warn` leaves a call out: one of the import system, or of a file that is to be skipped."""
    file = frame.f_code.co_filename
    return ("importlib" in file and "_bootstrap" in file) or file.startswith(prefixes)
