"""Silences the warnings of Python's compiler about one file, without a trace of that in the program's own warnings.

`warnings.catch_warnings` would do so, too. But it makes Python forget which warnings it has already shown, so that the
program shows them again.
"""

from __future__ import annotations

import re
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def no_compiler_warnings(file: str) -> Iterator[None]:
    """Ignore warnings that are about a file, not about a module by its name, as the compiler's are.

    Python gave them when it compiled the file for the program. Only the list of filters is changed, for a while.
    """
    filters: list[Any] = warnings.filters  # type: ignore[assignment]
    own = ("ignore", None, Warning, re.compile(re.escape(file.removesuffix(".py")) + r"\Z"), 0)
    filters.insert(0, own)
    try:
        yield
    finally:
        with suppress(ValueError):  # Another thread may have replaced all filters.
            filters.remove(own)
