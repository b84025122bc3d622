"""Functions of torch that the program has put its own in place of, and calls from these.

Torch tells a mode which public function is being called by looking up its name at that moment. Where a program has
replaced `torch.Tensor.to` by a function that counts and then calls the one it replaced, torch names the program's
function although its own is being called; a mode that called what it is told would count twice.
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
    """Whether `func` is neither torch's nor ours: then it may stand in the place of one of torch's."""
    scope = getattr(func, "__globals__", None)
    home = type(func).__module__ if scope is None else str(scope.get("__name__", ""))
    return home.partition(".")[0] not in ("torch", "builtins", "proxy_wrapper")


def called(func: Callable[..., Any], asking: FrameType) -> Callable[..., Any]:
    """The function that is being called where torch names another.

    Args:
        func: the one that torch named, `is_foreign`.
        asking: the frame that called `__torch_function__`.

    Returns:
        Torch's own function where `func` has been put in its place, `func` itself else.
    """
    if asking.f_code is handle_torch_function.__code__ and asking.f_back is not None:
        return _called_in(asking.f_back, func)
    places = [name for name, value in vars(torch.Tensor).items() if value is func]
    return getattr(torch._C.TensorBase, places[0], func) if len(places) == 1 else func


def _called_in(frame: FrameType, func: Callable[..., Any]) -> Callable[..., Any]:
    """`func`, or the function of torch that runs in `frame` and has asked for a mode before anything else.

    A frame does not know its function. Another one of the same code, whose defaults are the arguments that this call
    was given, does what the call would have gone on to do.
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
