"""Tells Dynamo what to make of this package: `Proxy(model)` in compiled code is `model`, nothing of ours is compiled.

Dynamo would take `Proxy`, a class whose calls give back what they are given, for one whose calls make an object, and
would compile what runs inside hooks. This file is loaded once Dynamo is.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from torch._dynamo import decorators, eval_frame, trace_rules, types
from torch._dynamo.comptime import comptime

from proxy_wrapper.places.location import UNCOUNTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_FOLDER: Final = f"{Path(__file__).parent.as_posix()}/"


def teach_dynamo(entry: type, functions: Iterable[Any], note: Callable[[object], None]) -> None:
    """Have Dynamo leave this package alone, and take a call of `entry` for its first argument.

    Where a version of torch has no such rules, it sees what it sees.

    Args:
        entry: the class whose calls give back what they are given.
        functions: what the program calls of ours; Dynamo is off while one runs, in what it calls, too.
        note: called while Dynamo captures a call of `entry`, with what it is given; with None if that is not there yet.
    """
    with contextlib.suppress(AttributeError):
        if _FOLDER not in trace_rules.SKIP_DIRS:
            trace_rules.SKIP_DIRS += [_FOLDER, UNCOUNTED]
            trace_rules._recompile_re()
    with contextlib.suppress(AttributeError):
        skips = types.FrameExecStrategy(types.FrameAction.SKIP, types.FrameAction.SKIP)  # type: ignore[attr-defined]
        for each in functions:
            eval_frame.set_code_exec_strategy(each.__code__, skips)  # type: ignore[attr-defined]
    # There before: the runtime has been loaded anew. A `TypeError`: this version knows only functions.
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        substitute = decorators.substitute_in_graph(entry, skip_signature_check=True, is_embedded_type=True)
        substitute(_substitute(note))


def _substitute(note: Callable[[object], None]) -> Any:
    """What Dynamo captures in place of a call of `Proxy`; it tells `note` meanwhile."""

    def tell(context: Any) -> None:
        with contextlib.suppress(Exception):  # It would be the compilation's.
            given = context.get_local("obj")._i_will_not_complain_if_bc_breaks_VariableTracker()
            note(getattr(given, "value", None))

    def given_back(obj: Any, *_: Any, **__: Any) -> Any:
        comptime(tell)
        return obj

    for each in (tell, given_back):  # Dynamo does not go into our files.
        each.__code__ = each.__code__.replace(co_filename="<given back>")
    return given_back
