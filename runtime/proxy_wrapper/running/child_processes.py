"""Lets the processes that `multiprocessing` starts find the same files in memory.

A process that is forked has them anyway. One that is started anew imports the main program of its parent, by its path
or by its name: before that it is told of the files.
"""

from __future__ import annotations

import marshal
import os
from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.after_import import AfterImport
from proxy_wrapper.running.memory_file import open_memory_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from proxy_wrapper.running.in_memory_files import InMemoryFiles

_STARTS: Final = ("from multiprocessing.spawn import", "from multiprocessing.forkserver import")
"""How the command of a process begins that is to run the program's code; those that only keep its books, need none."""


class ChildProcesses:
    """Hands the files in memory down to the processes that this one starts."""

    def __init__(self, files: InMemoryFiles) -> None:
        """Hand `files` down."""
        self._files = files

    def install(self) -> None:
        """Hand them down from now on; what starts processes is not loaded for it."""
        AfterImport("multiprocessing.util", self._install)
        AfterImport("runpy", self._files.install_in_runpy)

    def _install(self, util: ModuleType) -> None:
        original = util.spawnv_passfds

        def spawnv_passfds(path: Any, args: Sequence[Any], passfds: Sequence[int]) -> int:
            place = _place_of_program(args)
            if place is None:
                return int(original(path, args, passfds))
            number = open_memory_file(marshal.dumps(self._files.files))
            try:
                program = f"__import__({__package__ + '.start'!r}, fromlist=('',)).begin_child({number}); {args[place]}"
                told = [*args[:place], program, *args[place + 1 :]]
                return int(original(path, told, sorted((*passfds, number))))
            finally:
                os.close(number)

        util.spawnv_passfds = spawnv_passfds  # type: ignore[attr-defined]


def _place_of_program(arguments: Sequence[Any]) -> int | None:
    """Where in a command the program stands that `multiprocessing` starts; None if it is another command."""
    for place, argument in enumerate(arguments[1:], start=1):
        if isinstance(argument, str) and arguments[place - 1] == "-c" and argument.startswith(_STARTS):
            return place
    return None
