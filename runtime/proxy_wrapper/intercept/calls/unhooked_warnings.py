"""Keeps the reported places of warnings the same as without tracing.

`warnings.warn("...", stacklevel=3)` names the caller of its caller. If that lies beyond a module's `forward`, the
inner function through which torch calls modules with hooks (`unhooked_calls.py`) would count as a caller: another
line would be named, and filters, which go by the module of that line, might decide differently. The same holds for
the calls through which our mode observes torch's Python functions at DEBUG.
"""

from __future__ import annotations

import functools
import sys
import warnings
from typing import TYPE_CHECKING, Any, Final

from torch.jit import _builtins

from proxy_wrapper.intercept.attaching.call_sites import DISPATCHER, hide_frames, uncounted
from proxy_wrapper.intercept.attaching.replacing import ReplacingInterceptor, Target
from proxy_wrapper.intercept.calls.unhooked_calls import CALL, WITHOUT_HOOKS, has_own_hooks
from proxy_wrapper.places.location import STAND_IN, UNCOUNTED

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from proxy_wrapper.intercept.calls.module_calls import ModuleCalls
    from proxy_wrapper.tracer import Tracer


_SCRIPTED: Final = "aten::warn"
"""The operator for `warnings.warn` in TorchScript."""


class UnhookedWarnings(ReplacingInterceptor):
    """Replaces `warnings.warn` by a function that skips the calls that exist only because of us."""

    def __init__(self, tracer: Tracer, module_calls: ModuleCalls) -> None:
        super().__init__(tracer)
        self._module_calls = module_calls
        self._replacements: dict[Callable[..., None], Callable[..., None]] = {}

    def install(self) -> None:
        """Also make TorchScript accept the replacement, since it knows the functions it can compile by identity."""
        super().install()
        for each in self._replaced:
            _register_with_script(each.replacement)

    def remove(self) -> None:
        """Restore the function, and make TorchScript forget the replacement."""
        for each in self._replaced:
            _unregister_from_script(each.replacement)
        super().remove()

    def _targets(self) -> tuple[Target, ...]:
        return (Target(warnings, "warn", self._warner),)

    def _warner(self, original: Callable[..., None]) -> Callable[..., None]:
        """The replacement for `original`: always the same object, since guards of compiled code compare it."""
        if original not in self._replacements:
            self._replacements[original] = self._make(original)
        return self._replacements[original]

    def _make(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        @uncounted
        def warn(message: Any, category: Any = None, stacklevel: Any = 1, source: Any = None, **newer: Any) -> None:
            try:
                distance, moved = self._place(sys._getframe(1), stacklevel, newer.get("skip_file_prefixes", ()))
                if not distance:
                    original(message, category, stacklevel, source, **newer)
                elif moved is None or WITHOUT_HOOKS is None:
                    # The replacement's own file is skipped by `warnings.warn`, so `distance` counts all callers.
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

        warn.__module__ = warnings.__name__  # Where unpickling looks it up.
        return warn

    # A plain tuple: Dynamo, if it is tracing, would compile the construction of a named one.
    def _place(self, caller: FrameType, stacklevel: Any, prefixes: Any) -> tuple[int, FrameType | None]:
        """What a warning of `caller` refers to, counted as `warnings.warn` counts.

        Returns:
            The number of calls above the call of `warn`, plus one; 0 for arguments of unexpected types. And the frame,
            if its line differs without hooks.
        """
        if type(stacklevel) is not int or type(prefixes) is not tuple:
            return 0, None
        level = max(2, stacklevel) if prefixes else stacklevel
        counts_all = level <= 0 or _is_skipped(caller, ())
        frame, distance, is_past_ours = caller, 2, False
        while level > 1:
            above, steps, is_past_ours = self._above(frame)
            distance += steps
            if above is None:
                return distance, None
            frame = above
            if counts_all or not _is_skipped(frame, prefixes):
                level -= 1
        return distance, frame if is_past_ours and frame.f_code is CALL else None

    def _above(self, frame: FrameType) -> tuple[FrameType | None, int, bool]:
        """The frame above `frame` without us, its distance, and whether torch's inner function was skipped."""
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
        """Whether a call would not exist without our hooks."""
        if WITHOUT_HOOKS is None or frame.f_code is not WITHOUT_HOOKS.inner:
            return False
        return self._module_calls.is_alone() and not has_own_hooks(frame.f_locals["self"])


def _register_with_script(warn: Callable[..., None]) -> None:
    """Have TorchScript compile calls of `warn` like those of `warnings.warn`."""
    _builtins._builtin_ops.append((warn, _SCRIPTED))  # Source of the table, built at the first scripting.
    if _builtins._builtin_table is not None:
        _builtins._builtin_table[id(warn)] = _SCRIPTED


def _unregister_from_script(warn: Callable[..., None]) -> None:
    """Undo that, because another function may later get the same id."""
    _builtins._builtin_ops[:] = [each for each in _builtins._builtin_ops if each[0] is not warn]
    if _builtins._builtin_table is not None:
        _builtins._builtin_table.pop(id(warn), None)


def _is_skipped(frame: FrameType, prefixes: tuple[Any, ...]) -> bool:
    """Whether `warnings.warn` skips a frame: of the import system, or of a file with one of the prefixes."""
    file = frame.f_code.co_filename
    return ("importlib" in file and "_bootstrap" in file) or file.startswith(prefixes)
