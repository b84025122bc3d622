"""Wraps lines at words to the width of the output."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Final

from proxy_trace.terminal.colour import visible_length

if TYPE_CHECKING:
    from collections.abc import Iterator

_USUAL: Final = 80
_WORDS: Final = re.compile(r"[^\s\[]*\[[^\]\s]*(?: [^\]\s]+){0,8}\]\S*|\S+")
"""Words. The type of a tensor, such as "float32[64, 10]", is one word."""

_HANGING: Final = 4


def output_width() -> int:
    """The number of columns: COLUMNS, else that of the terminal, else 80 (a pipe)."""
    return shutil.get_terminal_size((_USUAL, 24)).columns


def fitted(line: str, width: int, hanging: int | None = None) -> Iterator[str]:
    """The line wrapped to `width` columns. Longer words are not broken.

    Args:
        line: any text, possibly marked by a `Palette`.
        width: the number of columns.
        hanging: the indentation of all lines but the first; by default, a little more than the first.
    """
    if visible_length(line) <= width:
        yield line
        return
    indent = len(line) - len(line.lstrip(" "))
    hanging = indent + _HANGING if hanging is None else hanging
    current, size, end = "", 0, 0
    for word in _WORDS.finditer(line):
        between = line[end : word.start()]
        end = word.end()
        length = visible_length(word[0])
        if current and size + len(between) + length > width:
            yield current
            current, size, between = "", 0, " " * hanging
        current += between + word[0]
        size += len(between) + length
    yield current


def fitted_command(command: str, width: int, indent: str) -> Iterator[str]:
    r"""A command that can be copied. If it is too long, each line but the last ends in a backslash."""
    lines = list(fitted(f"{indent}{command}", width - 2))
    yield from (f"{line} \\" for line in lines[:-1])
    yield lines[-1]
