"""Tells Dynamo how to treat this package: `Proxy(model)` in compiled code is `model`, and our code is not compiled.

By itself, Dynamo would assume that a call of the class `Proxy` creates an object, and would compile the code in our
hooks. This file is imported after Dynamo.
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
    """Make Dynamo skip this package, and replace a call of `entry` by its first argument.

    A version of torch without such rules behaves as before.

    Args:
        entry: the class whose calls return their first argument.
        functions: our functions that programs call. Dynamo is off while one runs, including in the code that it calls.
        note: called with the first argument when Dynamo captures a call of `entry`; with None if its value is unknown.
    """
    with contextlib.suppress(AttributeError):
        if _FOLDER not in trace_rules.SKIP_DIRS:
            trace_rules.SKIP_DIRS += [_FOLDER, UNCOUNTED]
            trace_rules._recompile_re()
    with contextlib.suppress(AttributeError):
        skips = types.FrameExecStrategy(types.FrameAction.SKIP, types.FrameAction.SKIP)  # type: ignore[attr-defined]
        for each in functions:
            eval_frame.set_code_exec_strategy(each.__code__, skips)  # type: ignore[attr-defined]
    # If it is there already, the runtime was loaded again. A `TypeError`: this version accepts only functions.
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        substitute = decorators.substitute_in_graph(entry, skip_signature_check=True, is_embedded_type=True)
        substitute(_substitute(note))


def _substitute(note: Callable[[object], None]) -> Any:
    """The function that Dynamo captures in place of a call of `Proxy`. Capturing it calls `note`."""

    def tell(context: Any) -> None:
        with contextlib.suppress(Exception):  # Otherwise it would break the compilation.
            given = context.get_local("obj")._i_will_not_complain_if_bc_breaks_VariableTracker()
            note(getattr(given, "value", None))

    def first_argument(obj: Any, *_: Any, **__: Any) -> Any:
        comptime(tell)
        return obj

    for each in (tell, first_argument):  # Dynamo skips our files.
        each.__code__ = each.__code__.replace(co_filename="<first argument>")
    return first_argument
