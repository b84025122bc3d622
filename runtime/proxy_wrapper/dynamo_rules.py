"""Tells Dynamo what to make of this package: `Proxy(model)` in compiled code is `model`, nothing of ours is compiled.

Dynamo would take `Proxy`, a class whose calls give back what they are given, for one whose calls make an object, and
would compile what runs inside hooks. This file is loaded once Dynamo is.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.location import UNCOUNTED

if TYPE_CHECKING:
    from types import FunctionType

_FOLDER: Final = f"{Path(__file__).parent.as_posix()}/"


def _given_back(obj: Any, *_: Any, **__: Any) -> Any:
    """What Dynamo puts in place of a call of `Proxy`."""
    return obj


def teach_dynamo(entry: type) -> None:
    """Have Dynamo leave this package alone, and take a call of `entry` for its first argument.

    Where a version of torch has no such rules, it sees what it sees.
    """
    from torch._dynamo import decorators, trace_rules

    with contextlib.suppress(AttributeError):
        if _FOLDER not in trace_rules.SKIP_DIRS:
            trace_rules.SKIP_DIRS += [_FOLDER, UNCOUNTED]
            trace_rules._recompile_re()
    function: FunctionType = _given_back  # type: ignore[assignment]
    # Dynamo goes by the file in what it may go into.
    function.__code__ = function.__code__.replace(co_filename="<given back>")
    # There before: the runtime has been loaded anew. A `TypeError`: this version knows only functions.
    with contextlib.suppress(AttributeError, TypeError, ValueError):
        decorators.substitute_in_graph(entry, skip_signature_check=True, is_embedded_type=True)(function)
