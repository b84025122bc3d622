"""The code objects of a file, each with its observed counterpart."""

from __future__ import annotations

import linecache
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Final

from proxy_wrapper.flow.observed_code import compile_observed
from proxy_wrapper.program_code.compiler_warnings import no_compiler_warnings

if TYPE_CHECKING:
    from collections.abc import Iterator

_LARGEST_FILE: Final = 4 << 20


class SourceFile:
    """A file's source, compiled with and without its conditions observed.

    A running code object has a counterpart only if it equals one compiled from the source. It has none if the file has
    changed on disk, if the code was generated, or if something else rewrites what Python loads.
    """

    def __init__(self, file: str) -> None:
        """Compile the file, if its source can be found. Raises nothing."""
        self._observed: dict[tuple[str, int], list[tuple[CodeType, CodeType]]] = {}
        source = _source_of(file)
        if source is None:
            return
        try:
            with no_compiler_warnings(file):
                plain = compile(source, file, "exec", dont_inherit=True)
            pairs = list(_pairs(plain, compile_observed(source, file)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        for original, observed in pairs:
            key = (original.co_name, original.co_firstlineno)
            self._observed.setdefault(key, []).append((original, observed))

    def observed(self, code: CodeType) -> CodeType | None:
        """The observed counterpart of `code`; None if the source does not compile to `code`."""
        for original, observed in self._observed.get((code.co_name, code.co_firstlineno), ()):
            if original == code and observed.co_freevars == code.co_freevars:
                return observed
        return None


def _pairs(plain: CodeType, observed: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The code objects nested in both, in pairs.

    Raises:
        ValueError: if the two do not correspond.
    """
    yield plain, observed
    inner = [[each for each in code.co_consts if isinstance(each, CodeType)] for code in (plain, observed)]
    for first, second in zip(*inner, strict=True):
        if (first.co_name, first.co_firstlineno) != (second.co_name, second.co_firstlineno):
            raise ValueError(first.co_name)
        yield from _pairs(first, second)


def _source_of(file: str) -> bytes | str | None:
    """The source of a file; None if there is none, or if it is too large to recompile."""
    try:
        path = Path(file)
        if path.is_file():
            return path.read_bytes() if path.stat().st_size <= _LARGEST_FILE else None
    except (OSError, ValueError):
        return None
    # A cell of a notebook.
    lines = linecache.cache.get(file)
    return "".join(lines[2]) if lines is not None and len(lines) == 4 and lines[1] is None else None
