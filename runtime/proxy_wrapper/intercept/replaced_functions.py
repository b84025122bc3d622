"""Functions of torch that the program has put its own in place of, and calls from these.

Torch tells a mode which public function is being called by looking up its name at that moment. Where a program has
replaced `torch.Tensor.to` by a function that counts and then calls the one it replaced, torch names the program's
function although its own is being called; a mode that called what it is told would count twice.
"""

from __future__ import annotations

import gc
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import handle_torch_function

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType


def is_foreign(func: Callable[..., Any]) -> bool:
    """Whether `func` is neither torch's nor ours: then it may stand in the place of one of torch's."""
    scope = getattr(func, "__globals__", None)
    home = type(func).__module__ if scope is None else str(scope.get("__name__", ""))
    return home.partition(".")[0] not in ("torch", "builtins", "proxy_wrapper")


class ReplacedFunctions:
    """Finds the function that was called where torch names the one in its place. Thread-safe."""

    def __init__(self) -> None:
        self._by_code: dict[CodeType, FunctionType | None] = {}

    def called(self, func: Callable[..., Any], asking: FrameType) -> Callable[..., Any]:
        """The function that is being called.

        Args:
            func: the one that torch named, `is_foreign`.
            asking: the frame that called `__torch_function__`.

        Returns:
            Torch's own function where `func` has been put in its place, `func` itself else.
        """
        if asking.f_code is handle_torch_function.__code__ and asking.f_back is not None:
            return self._called_from(func, asking.f_back)
        places = [name for name, value in vars(torch.Tensor).items() if value is func]
        return getattr(torch._C.TensorBase, places[0], func) if len(places) == 1 else func

    def _called_from(self, func: Callable[..., Any], caller: FrameType) -> Callable[..., Any]:
        """`func`, or what a function of torch written in Python goes on with after it has asked."""
        code = caller.f_code
        name = code.co_name.lstrip("_")  # `_max_pool1d` asks for `max_pool1d`, which chooses between two functions.
        replaced = (caller.f_globals.get(name), vars(torch.Tensor).get(code.co_name))
        if getattr(func, "__code__", None) is code or not any(each is func for each in replaced):
            return func
        if (
            code not in self._by_code
        ):  # Nothing but the collector can tell whose code it is; once for each function replaced.
            functions = (each for each in gc.get_referrers(code) if isinstance(each, FunctionType))
            self._by_code[code] = next((each for each in functions if each.__code__ is code), None)
        return self._by_code[code] or func
