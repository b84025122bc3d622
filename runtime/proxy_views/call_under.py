"""Calls a function with gradients, inference mode and autocast set as they were around a recorded call."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch

from proxy_views.targets import portable

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_views.call_state import CallState


class CallUnder:
    """The target of a node that calls a function under a different `CallState` than the graph's.

    Attributes:
        function: the function to call.
        state: the state during the call.
    """

    def __init__(self, function: Callable[..., Any], state: CallState, outer: CallState) -> None:
        """Name it after `function` and the difference between `state` and `outer`."""
        self.function = function
        self.state = state
        self.outer = outer
        self.__name__ = f"{getattr(function, '__name__', 'call')}_{state.words(outer)}"
        self.__qualname__ = self.__name__
        self.__module__ = __name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, and return its result."""
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
