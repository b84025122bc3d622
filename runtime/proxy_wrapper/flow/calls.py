"""The functions that observed code calls: three names in `builtins`.

They remain there once code has been observed, because code that is still running when observation ends keeps calling
them. They then do nothing. While Dynamo captures, each returns its last argument at once. Dynamo takes these functions
for the program's own, which it can compile.
"""

from __future__ import annotations

import builtins
from sys import _getframe
from typing import TYPE_CHECKING, Any, Final

from torch.compiler import is_compiling

from proxy_wrapper.flow.observed_code import ITER, LOOP, TRUTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, FunctionType

_FILE: Final = "<flow steps>"
"""Replaces the name of this file, because Dynamo compiles none of our files."""


def put_in(
    tell_truth: Callable[[tuple[str, str, int], bool, FrameType], None],
    follow_loop: Callable[[tuple[str, str, int], Iterator[Any], FrameType], Iterator[Any]],
) -> None:
    """Make observed code call these two functions.

    Args:
        tell_truth: called with each condition, its outcome, and its frame.
        follow_loop: takes the iterator of a loop, and returns the one to use instead.
    """

    def truth(site: tuple[str, str, int], value: bool) -> bool:
        if is_compiling():
            return value
        tell_truth(site, value, _getframe(1))
        return value

    def loop(site: tuple[str, str, int], iterator: Iterator[Any]) -> Iterator[Any]:
        if is_compiling():
            return iterator
        return follow_loop(site, iterator, _getframe(1))

    _name(truth, loop)


def take_out() -> None:
    """Make observed code that is still running call functions that do nothing."""

    def truth(_: tuple[str, str, int], value: bool) -> bool:
        return value

    def loop(_: tuple[str, str, int], iterator: Iterator[Any]) -> Iterator[Any]:
        return iterator

    _name(truth, loop)


def _name(truth: Any, loop: Any) -> None:
    made: tuple[FunctionType, FunctionType] = (truth, loop)
    for each in made:
        each.__code__ = each.__code__.replace(co_filename=_FILE)
    vars(builtins).update({TRUTH: truth, LOOP: loop, ITER: iter})
