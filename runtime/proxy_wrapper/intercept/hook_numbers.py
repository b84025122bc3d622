"""Numbers for the hooks of ours, so that those of the program have the numbers that they have without us."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Final

from torch.utils.hooks import RemovableHandle

if TYPE_CHECKING:
    from collections.abc import Iterator

_FIRST_NUMBERS: Final = itertools.count(-(1 << 40), 16)
"""The first number of each block, of sixteen. All are below those that torch gives, which counts up from 0: a number
that is given twice would replace a hook."""


@contextlib.contextmanager
def numbered_apart() -> Iterator[None]:
    """Give the hooks that are registered in the block numbers that torch does not count.

    A number is the key of a hook in its module, so that a file has it to which the whole module is saved.
    """
    before, RemovableHandle.next_id = RemovableHandle.next_id, next(_FIRST_NUMBERS)
    try:
        yield
    finally:
        RemovableHandle.next_id = before
