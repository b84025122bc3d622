"""What a torch call did with an input that it returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy_wrapper.events import CallFunction

IN_PLACE = "in place"
ITSELF = "itself"


def how_given_back(event: CallFunction) -> str:
    """`IN_PLACE` for a call that changed its first argument, `ITSELF` for one that returned it unchanged, else "".

    Names tell: functions that change a tensor end with one underscore (`add_`) or are augmented assignments
    (`__iadd__`). Others return a tensor that already is as requested (`to`, `contiguous`), or work in place because of
    an argument (`relu(x, inplace=True)`), which a trace does not contain.
    """
    if not event.in_place:
        return ""
    name = event.target.rpartition(".")[2]
    changes = name.startswith("__i") if name.endswith("__") else name.endswith("_")
    return IN_PLACE if changes else ITSELF
