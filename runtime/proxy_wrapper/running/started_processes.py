"""Passes the files in memory on to the processes that a program starts.

A forked process has them anyway. One spawned by `multiprocessing` imports the main program of its parent, by path or by
name, and gets the files before that. One that runs the same program, as Lightning starts its further ranks, is started
in the same way as this process. So is this process if the program re-executes itself.
"""

from __future__ import annotations

import marshal
import os
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_wrapper.running.memory_file import open_memory_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_wrapper.running.in_memory_files import InMemoryFiles

TYPED_NAME: Final = "instrument"
"""The `-X` option with the script or module as typed by the user, which lists of processes then show."""

CHILD: Final = "instrument-child"
"""The `-X` option of a program started by the same program. Its end is not the end of the run."""

_OF_MULTIPROCESSING: Final = ("from multiprocessing.spawn import", "from multiprocessing.forkserver import")
"""The beginnings of commands that will run the program's code. Bookkeeping processes do not need the files."""

_WITH_VALUE: Final = frozenset(("-W", "-X", "--check-hash-based-pycs"))
"""Options of Python whose value is the next argument."""


class MainProgram(NamedTuple):
    """The program that runs in this process.

    Attributes:
        code: the file of code with which Python was started; empty in a process started by `multiprocessing`.
        module: the module that is run as with `python -m`; "" for a script.
        path: the resolved path of the script.
    """

    code: bytes
    module: str
    path: str


class StartedProcesses:
    """Passes the files in memory on to the processes that this one starts."""

    def __init__(self, files: InMemoryFiles, program: MainProgram) -> None:
        """Take the `files` to pass on, and the `program` to pass on where it starts itself."""
        self._files = files
        self._program = program

    def install(self) -> None:
        """Pass them on from now on, to what `subprocess` and `multiprocessing` start and `os.exec*` executes."""
        import _posixsubprocess

        module: Any = _posixsubprocess
        original: Callable[..., int] = module.fork_exec

        def fork_exec(
            args: Sequence[Any], programs: Sequence[Any], close: bool, passed: Sequence[int], *more: Any
        ) -> int:
            told = self._told(args, more[0], in_place=False)
            if told is None:
                return original(args, programs, close, passed, *more)
            command, number = told
            try:
                return original(command, programs, close, tuple(sorted((*passed, number))), *more)
            finally:
                os.close(number)

        module.fork_exec = fork_exec
        if self._program.code:
            self._install_in_os()

    def _install_in_os(self) -> None:
        for name in ("execv", "execve"):
            setattr(os, name, self._executing(getattr(os, name)))

    def _executing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def execute(path: Any, args: Sequence[Any], *env: Any) -> Any:
            told = self._told(args, None, in_place=True) if _is_this_python(path) else None
            if told is None:
                return original(path, args, *env)
            command, number = told
            try:
                return original(path, command, *env)
            finally:
                os.close(number)

        return execute

    def _told(self, arguments: Sequence[Any], folder: Any, *, in_place: bool) -> tuple[list[Any], int] | None:
        """The command with the files in memory, and the descriptor that holds them; None for any other command.

        Args:
            arguments: the command.
            folder: where it is to run; None for the current folder.
            in_place: whether it replaces this process.
        """
        try:
            texts = [os.fsdecode(each) for each in arguments]
        except TypeError:
            return None
        place = _place_of_program(texts)
        if place is not None:
            number = _open_inheritable(marshal.dumps(self._files.files))
            start = f"__import__({__package__ + '.start'!r}, fromlist=('',)).begin_child({number}); "
            return [*arguments[:place], start + texts[place], *arguments[place + 1 :]], number
        found = self._place_of_itself(texts, "" if folder is None else os.fsdecode(folder))
        if found is None:
            return None
        number = _open_inheritable(self._program.code)
        place, name = found
        options = ["-X", f"{TYPED_NAME}={name}"] if in_place else ["-X", CHILD, "-X", f"{TYPED_NAME}={name}"]
        before = arguments[: place - 1] if self._program.module else arguments[:place]
        return [*before, *options, f"/dev/fd/{number}", *arguments[place + 1 :]], number

    def _place_of_itself(self, texts: Sequence[str], folder: str) -> tuple[int, str] | None:
        """The position of this program's name in a command, and the name; None if it is another command."""
        module, path = self._program.module, self._program.path
        if not self._program.code or not texts or not _is_this_python(texts[0]):
            return None
        place = _end_of_options(texts)
        if place < len(texts) and texts[place] == "-m":
            is_itself = bool(module) and texts[place + 1 : place + 2] == [module]
            return (place + 1, module) if is_itself else None
        if module or place == len(texts):
            return None
        name = texts[place]
        return (place, name) if os.path.realpath(os.path.join(folder, name)) == path else None  # noqa: PTH118


def _is_this_python(path: Any) -> bool:
    return os.fsdecode(path) == sys.executable


def _end_of_options(texts: Sequence[str]) -> int:
    """The position where Python's options end in a command: at `-m`, or at what is to be run."""
    place = 1
    while place < len(texts) and texts[place].startswith("-") and texts[place] not in ("-m", "-c", "-", "--"):
        place += 2 if texts[place] in _WITH_VALUE else 1
    return min(place, len(texts))


def _place_of_program(texts: Sequence[str]) -> int | None:
    """The position of the program that `multiprocessing` starts in a command; None if it is another command."""
    for place in range(2, len(texts)):
        if texts[place - 1] == "-c":
            return place if texts[place].startswith(_OF_MULTIPROCESSING) else None
    return None


def _open_inheritable(content: bytes) -> int:
    number = open_memory_file(content)
    os.set_inheritable(number, True)
    return number
