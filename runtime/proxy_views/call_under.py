"""Calls a function with gradients, inference mode and autocast switched as they were around a recorded call."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch

from proxy_views.targets import portable

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_views.call_state import CallState


class CallUnder:
    """Calls a function with other switches than those around it: the target of a node.

    Attributes:
        function: what it calls.
        state: the switches that are on meanwhile.
    """

    def __init__(self, function: Callable[..., Any], state: CallState, outer: CallState) -> None:
        """Name it after `function`, and after how `state` differs from `outer`."""
        self.function = function
        self.state = state
        self.outer = outer
        self.__name__ = f"{getattr(function, '__name__', 'call')}_{state.words(outer)}"
        self.__qualname__ = self.__name__
        self.__module__ = __name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives back."""
        with contextlib.ExitStack() as switches:
            state, outer = self.state, self.outer
            if state.inference != outer.inference:
                switches.enter_context(torch.inference_mode(state.inference))
            if state.grad != outer.grad:
                switches.enter_context(torch.set_grad_enabled(state.grad))
            if state.autocast != outer.autocast:
                for each in outer.autocast:
                    switches.enter_context(torch.autocast(each.device, enabled=False))
                for each in state.autocast:
                    switches.enter_context(torch.autocast(each.device, dtype=each.dtype))
            return self.function(*args, **kwargs)

    def __deepcopy__(self, memo: Any) -> CallUnder:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return CallUnder, (portable(self.function), self.state, self.outer)
