"""What observed code calls: three names among the builtins.

They are there from when code is first observed: what still runs when observing ends goes on to call them, and then they
do nothing. Each gives back its last argument at once while Dynamo captures, which takes these functions for the
program's own and so for nothing that it could not compile.
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
"""In place of the name of this file: Dynamo compiles nothing of ours."""


def put_in(
    tell_truth: Callable[[tuple[str, str, int], bool, FrameType], None],
    follow_loop: Callable[[tuple[str, str, int], Iterator[Any], FrameType], Iterator[Any]],
) -> None:
    """Have observed code call these two.

    Args:
        tell_truth: told of each test, how it came out and where.
        follow_loop: given what a loop is to go over, and gives back what it goes over instead.
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
    """Have observed code that still runs call what does nothing."""

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
