"""Parses running functions from the files that they were compiled from."""

from __future__ import annotations

import ast
import tokenize
import warnings
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import CodeType

_LARGEST: Final = 1 << 20
"""The most characters of a file that is read."""


class ParsedFunctions:
    """Finds the syntax trees of functions; each file is read once."""

    def __init__(self) -> None:
        self._files: dict[str, dict[int, ast.FunctionDef] | None] = {}

    def find(self, code: CodeType) -> ast.FunctionDef | None:
        """The definition of the function with `code`; None if its file is missing or has changed since."""
        if code.co_filename not in self._files:
            self._files[code.co_filename] = _read(code.co_filename)
        functions = self._files[code.co_filename]
        found = None if functions is None else functions.get(code.co_firstlineno)
        return found if found is not None and found.name == code.co_name else None


def _read(file: str) -> dict[int, ast.FunctionDef] | None:
    """The functions of a file, by first line, including decorators."""
    try:
        with tokenize.open(file) as opened:
            text = opened.read(_LARGEST + 1)
        with warnings.catch_warnings():
            # Python has already warned of invalid escapes when it compiled the file.
            warnings.simplefilter("ignore")
            tree = ast.parse(text) if len(text) <= _LARGEST else None
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    if tree is None:
        return None
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {min([node.lineno, *(each.lineno for each in node.decorator_list)]): node for node in functions}
