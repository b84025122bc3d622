"""Finds the torch function being called if the program has replaced it by a function that calls it.

Torch tells a mode which public function is called by looking up its name at that moment. If a program has replaced
`torch.Tensor.to` by a function that counts calls and calls the original, torch names the program's function although
the original is being called. A mode that called the named function would count twice.
"""

from __future__ import annotations

from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import handle_torch_function

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def is_foreign(func: Callable[..., Any]) -> bool:
    """Whether `func` is neither torch's nor ours; it may then replace one of torch's."""
    scope = getattr(func, "__globals__", None)
    home = type(func).__module__ if scope is None else str(scope.get("__name__", ""))
    return home.partition(".")[0] not in ("torch", "builtins", "proxy_wrapper")


def called(func: Callable[..., Any], asking: FrameType) -> Callable[..., Any]:
    """The function that is being called although torch names `func`.

    Args:
        func: the function that torch named; `is_foreign` is true of it.
        asking: the frame that called `__torch_function__`.

    Returns:
        Torch's own function if `func` has replaced it, else `func`.
    """
    if asking.f_code is handle_torch_function.__code__ and asking.f_back is not None:
        return _called_in(asking.f_back, func)
    places = [name for name, value in vars(torch.Tensor).items() if value is func]
    return getattr(torch._C.TensorBase, places[0], func) if len(places) == 1 else func


def _called_in(frame: FrameType, func: Callable[..., Any]) -> Callable[..., Any]:
    """`func`, or the torch function that runs in `frame` and is just asking for modes.

    A frame does not know its function. So a new function of the same code is made, whose defaults are the arguments of
    this call: calling it does what the call would have done.
    """
    code, variables = frame.f_code, frame.f_locals
    name = code.co_name.lstrip("_")  # `_max_pool1d` asks for `max_pool1d`, which chooses between two functions.
    replaced = (frame.f_globals.get(name), vars(torch.Tensor).get(code.co_name))
    if getattr(func, "__code__", None) is code or not any(each is func for each in replaced):
        return func
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = [variables[each] for each in parameters]
    cells = tuple(CellType(variables[each]) for each in code.co_freevars)
    function = FunctionType(code, frame.f_globals, code.co_name, tuple(given[: code.co_argcount]), cells)
    function.__kwdefaults__ = dict(zip(parameters[code.co_argcount :], given[code.co_argcount :], strict=True))
    return function
