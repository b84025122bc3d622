"""Parses the source of running functions, from the files that they were compiled from."""

from __future__ import annotations

import ast
import tokenize
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.program_code.compiler_warnings import no_compiler_warnings

if TYPE_CHECKING:
    import threading
    from collections.abc import Collection, Iterator
    from types import CodeType

_LARGEST: Final = 1 << 20
"""The most characters of a file; larger files are not parsed."""
_MOST_FILES: Final = 200
"""The most files in which a word is searched."""
_SCRIPT: Final = "<module>"
_BLOCKS: Final = ("body", "handlers", "orelse", "finalbody", "cases")
"""The fields of nodes that have statements, or what has statements."""


class _File(NamedTuple):
    """The syntax of a file, and its functions by their first line, decorators included."""

    tree: ast.Module
    functions: dict[int, ast.FunctionDef]


class ParsedFunctions:
    """Finds the syntax trees of functions. Each file is read once.

    Args:
        lock: held while a file is parsed. Python 3.11 counts the depth of a tree for all threads together, and raises a
            `SystemError` if several parse at once.
    """

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock
        self._files: dict[str, _File | None] = {}

    def find(self, code: CodeType) -> ast.FunctionDef | None:
        """The definition of the function with `code`; None if its file is missing or has changed since."""
        file = self._file_of(code.co_filename)
        found = None if file is None else file.functions.get(code.co_firstlineno)
        return found if found is not None and found.name == code.co_name else None

    def file_of(self, code: CodeType) -> ast.Module | None:
        """The file that `code` was compiled from; None if it is missing."""
        file = self._file_of(code.co_filename)
        return None if file is None else file.tree

    def files_with(self, word: str, names: Collection[str]) -> list[ast.Module] | None:
        """Those of some files whose text has a word; None if one cannot be read, or if there are too many."""
        found = []
        for name in names:
            text = _text_of(name) if len(names) <= _MOST_FILES else None
            file = self._file_of(name) if text is not None and word in text else None
            if text is None or (word in text and file is None):
                return None
            found += [] if file is None else [file.tree]
        return found

    def find_any(self, code: CodeType) -> ast.FunctionDef | ast.Module | None:
        """The definition of a function; for the top-level code of a script, the whole file."""
        if code.co_name != _SCRIPT:
            return self.find(code)
        return self.file_of(code)

    def _file_of(self, name: str) -> _File | None:
        with self._lock:
            if name not in self._files:
                self._files[name] = _read(name)
            return self._files[name]


def _text_of(file: str) -> str | None:
    """The text of a file; None if it cannot be read, or is too long."""
    try:
        with tokenize.open(file) as opened:
            text = opened.read(_LARGEST + 1)
    except (OSError, SyntaxError, ValueError):
        return None
    return text if len(text) <= _LARGEST else None


def _read(file: str) -> _File | None:
    text = _text_of(file)
    if text is None:
        return None
    try:
        with no_compiler_warnings(file):
            tree = ast.parse(text, file)
    except (SyntaxError, ValueError, RecursionError, SystemError):  # The last if the program parses, too.
        return None
    functions = (node for node in statements_of(tree) if isinstance(node, ast.FunctionDef))
    return _File(tree, {min([node.lineno, *(each.lineno for each in node.decorator_list)]): node for node in functions})


def statements_of(tree: ast.Module) -> Iterator[ast.AST]:
    """A file and its statements, those within others included; several times faster than `ast.walk`."""
    pending: list[ast.AST] = [tree]
    for node in pending:
        yield node
        for name in _BLOCKS:
            block = getattr(node, name, None)
            if isinstance(block, list):
                pending += block
