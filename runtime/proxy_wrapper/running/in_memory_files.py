"""Files whose code is in memory. They are imported and run with proxied models."""

from __future__ import annotations

import importlib.machinery
import marshal
import os
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType, ModuleType


class InMemoryFiles:
    """The code that is to run in place of the content of some files."""

    def __init__(self, files: Mapping[str, tuple[bytes, bytes]]) -> None:
        """Take the files.

        Args:
            files: by resolved path, the SHA-256 of the file's expected content, and its marshalled code.
        """
        self.files = dict(files)
        # Programs import thousands of files. Most are ruled out by name, without a system call.
        self._names = frozenset(os.path.basename(path) for path in files)  # noqa: PTH119

    def code_of(self, path: str) -> CodeType | None:
        """The code of the file `path`, under that name; None if it is not one of the files, or has changed."""
        if os.path.basename(path) not in self._names:  # noqa: PTH119
            return None
        real = os.path.realpath(path)
        digest, code = self.files.get(real, (b"", b""))
        if not code:
            return None
        try:
            with open(real, "rb") as file:  # noqa: PTH123  As early as this, `pathlib` need not be loaded.
                if sha256(file.read()).digest() != digest:
                    return None
        except OSError:
            return None
        return _renamed(marshal.loads(code), path)

    def install(self) -> None:
        """Make imports use them, by whichever name and finder."""
        original = importlib.machinery.SourceFileLoader.get_code
        code_of = self.code_of

        def get_code(self: Any, fullname: str) -> CodeType | None:
            return code_of(self.path) or original(self, fullname)

        importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]

    def install_in_runpy(self, runpy: ModuleType) -> None:
        """Let `runpy.run_path` find them, too: so `multiprocessing` imports the main program of its parent."""
        original = runpy._get_code_from_file
        gives_name = original.__code__.co_argcount == 2  # Up to Python 3.12 it is given two names, and gives one back.

        def get_code_from_file(*arguments: str) -> Any:
            path = os.fsdecode(arguments[-1])
            code = self.code_of(path)
            if code is None:
                return original(*arguments)
            return (code, arguments[-1]) if gives_name else code

        runpy._get_code_from_file = get_code_from_file  # type: ignore[attr-defined]


def _renamed(code: CodeType, path: str) -> CodeType:
    """`code` and all code nested in it, with `path` as its file."""
    within = tuple(_renamed(each, path) if hasattr(each, "co_code") else each for each in code.co_consts)
    return code.replace(co_filename=path, co_consts=within)
