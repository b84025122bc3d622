"""What a call of torch did with the tensor that it gave back, where that is the one it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy_wrapper.events import CallFunction

IN_PLACE = "in place"
ITSELF = "itself"


def how_given_back(event: CallFunction) -> str:
    """`IN_PLACE` for a call that changed its first argument, `ITSELF` for one that passed it on, "" for any other.

    Torch's names tell: what changes a tensor ends in one underscore (`add_`) or is an augmented assignment
    (`__iadd__`). Others pass on what is as they would have it (`to`, `contiguous`), or were asked to work in place by
    an argument (`relu(x, inplace=True)`), which a trace does not hold.
    """
    if not event.in_place:
        return ""
    name = event.target.rpartition(".")[2]
    changes = name.startswith("__i") if name.endswith("__") else name.endswith("_")
    return IN_PLACE if changes else ITSELF
