"""Lets the processes that a program starts have its files in memory, too.

A process that is forked has them anyway. One that `multiprocessing` starts anew imports the main program of its parent,
by its path or by its name: it is told of the files before. One that is to run the same program, as Lightning starts its
further ranks, is started as this one was; and so is this process, when the program executes itself anew.
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
"""The `-X` option that gives the script, or the module, as it was typed; so lists of processes show it, too."""

CHILD: Final = "instrument-child"
"""The `-X` option of a program that is started by the same program; its end is not the end."""

_OF_MULTIPROCESSING: Final = ("from multiprocessing.spawn import", "from multiprocessing.forkserver import")
"""How the command of a process begins that is to run the program's code; those that only keep its books, need none."""

_WITH_VALUE: Final = frozenset(("-W", "-X", "--check-hash-based-pycs"))
"""Options of Python whose value is the next argument."""


class MainProgram(NamedTuple):
    """The program that runs in this process.

    Attributes:
        code: the file of code that Python was started with; empty in a process that `multiprocessing` has started.
        module: the module that is run as `python -m` does; "" for a script.
        path: the script, with all links followed.
    """

    code: bytes
    module: str
    path: str


class StartedProcesses:
    """Hands the files in memory down to the processes that this one starts."""

    def __init__(self, files: InMemoryFiles, program: MainProgram) -> None:
        """Hand down `files`, and where `program` itself is started, that."""
        self._files = files
        self._program = program

    def install(self) -> None:
        """Hand them down from now on: to what `subprocess` and `multiprocessing` start, and `os.exec*` executes."""
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
        """The command with the files in memory, and the number of the file that holds them; None for any other command.

        Args:
            arguments: the command.
            folder: where it is to run; None for here.
            in_place: whether this process executes it, and no other.
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
        """Where in a command the name of this very program stands, and that name; None if it is another command."""
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
    """Where the options of Python end in a command: at `-m`, or at what is to be run."""
    place = 1
    while place < len(texts) and texts[place].startswith("-") and texts[place] not in ("-m", "-c", "-", "--"):
        place += 2 if texts[place] in _WITH_VALUE else 1
    return min(place, len(texts))


def _place_of_program(texts: Sequence[str]) -> int | None:
    """Where in a command the program stands that `multiprocessing` starts; None if it is another command."""
    for place in range(2, len(texts)):
        if texts[place - 1] == "-c":
            return place if texts[place].startswith(_OF_MULTIPROCESSING) else None
    return None


def _open_inheritable(content: bytes) -> int:
    number = open_memory_file(content)
    os.set_inheritable(number, True)
    return number
