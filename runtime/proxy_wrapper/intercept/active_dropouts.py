"""Finds functional dropout that drops values in evaluation mode, since nobody has told it of the mode.

While one of the first calls of a model in evaluation mode runs, what `torch.nn.functional.dropout` and its kin call is
replaced. What is compiled is left alone.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import _VF

from proxy_wrapper.events import ActiveDropout
from proxy_wrapper.intercept.call_sites import uncounted
from proxy_wrapper.levels import INFO
from proxy_wrapper.places.assigned_lines import arguments_given

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from proxy_wrapper.tracer import Tracer

_FUNCTIONS: Final = ("dropout", "dropout_", "feature_dropout", "feature_dropout_", "alpha_dropout", "alpha_dropout_")
_FUNCTIONAL: Final = torch.nn.functional.dropout.__code__.co_filename
_TRAINING: Final = "training"
_PLACE_OF_TRAINING: Final = 3
"""Which argument of the functions it is."""


class ActiveDropouts:
    """Makes `ActiveDropout` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._replaced: list[str] = []
        self._told: set[int] = set()

    def begin(self) -> None:
        """See calls of dropout from now on, but where something is compiled."""
        compiler = sys.modules.get("torch._dynamo.eval_frame")
        backends = getattr(compiler, "cached_backends", {})
        if self._replaced or any(backend is not None for backend in list(backends.values())):
            return
        for name in _FUNCTIONS:
            if name not in _VF.__dict__:
                _VF.__dict__[name] = self._replacement(getattr(_VF, name))
                self._replaced.append(name)

    def end(self) -> None:
        """See them no more."""
        if self._replaced:
            replaced, self._replaced = self._replaced, []
            for name in replaced:
                _VF.__dict__.pop(name, None)

    def _replacement(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @uncounted
        def dropout(tensor: Any, p: Any, is_active: Any) -> Any:
            if is_active is True and type(p) is float and p > 0.0:
                self._note(sys._getframe(1))
            return original(tensor, p, is_active)

        return dropout

    def _note(self, functional: FrameType) -> None:
        """Take note of a call of dropout that is active, if nobody has asked for that."""
        tracer = self._tracer
        try:
            thread = tracer.thread
            caller = functional.f_back
            if not (self._replaced and tracer.active and thread.stack) or thread.inside is not None or caller is None:
                return
            if functional.f_code.co_filename != _FUNCTIONAL or not self._is_by_default(caller):
                return
            calling = thread.stack[-1].entry
            modules = [each.entry.module() for each in thread.stack]
            if any(module is None or module.training for module in modules):
                return
            location = tracer.locator.locate(2)
            if location in self._told:
                return
            self._told.add(location)
            name = functional.f_code.co_name
            event = ActiveDropout(tracer.now_us(), tracer.step, calling.id, location, thread.number, thread.stage, name)
            tracer.broadcast(event, location, level=INFO)
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            tracer.fail(error)

    @staticmethod
    def _is_by_default(caller: FrameType) -> bool:
        """Whether a call of a function says nothing of training, which is then taken for true."""
        given = arguments_given(caller)
        return given is not None and given[0] < _PLACE_OF_TRAINING and _TRAINING not in given[1]
