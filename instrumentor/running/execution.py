"""Turns this process into the program to run, by restarting Python."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from instrumentor import emit
from instrumentor.errors import InstrumentError
from instrumentor.messages import say
from instrumentor.running.program import Choices, Target, absolute_path, prepare, read_source
from instrumentor.running.program_code import module_file, pack_files, script_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from instrumentor.running.program import Prepared

# Python options whose value is the next argument.
_WITH_VALUE = frozenset(("-W", "-X", "--check-hash-based-pycs"))


def run(target: Target, arguments: Sequence[str], choices: Choices, *, is_quiet: bool) -> NoReturn:
    """Run a program with its models under proxies; this process becomes it.

    A program that Python cannot run is given to Python unchanged, so that Python reports why. So is one that cannot be
    instrumented, after a message on standard error.
    """
    source = None if target.file is None else read_source(target.file)
    if target.file is None and os.path.isfile(target.name):  # noqa: PTH113
        say(f"instrument: {target.name} is an archive and runs untraced")
    if target.file is None or source is None or not _is_python(source, target):
        _become([*_named(target), *arguments])
    try:
        prepared = prepare(target, choices)
        if prepared.failure:
            say(f"instrument: {prepared.failure}; it runs untraced")
            _become([*_named(target), *arguments])
        code = _code(target, source, prepared, is_quiet=is_quiet)
    except (InstrumentError, SyntaxError, ValueError, RecursionError) as error:
        say(f"instrument: {error}; {target.name} runs untraced")
        _become([*_named(target), *arguments])
    number = _open_in_memory(code)
    _become(["-X", f"{emit.TYPED_NAME}={target.name}", f"/dev/fd/{number}", *arguments])


def _is_python(source: bytes, target: Target) -> bool:
    """Whether a main file can be compiled; a script's compile warnings are shown as Python shows them."""
    if target.module:
        return True
    try:
        compile(source, absolute_path(target.name), "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _code(target: Target, source: bytes, prepared: Prepared, *, is_quiet: bool) -> bytes:
    message = {
        "module": target.module,
        "script": "" if target.module else os.path.realpath(target.name),
        "search": target.search,
        "flags": _flags(),
        "files": pack_files(prepared.files),
        "logdir": prepared.logdir,
        "shown_logdir": prepared.shown_logdir,
        "hint": prepared.hint,
        "is_quiet": is_quiet,
    }
    if target.module:
        return module_file(message)
    assert target.file is not None
    real = os.path.realpath(target.file)
    instrumented = next((changed for path, _, changed in prepared.files if path == real), source)
    return script_file(instrumented, absolute_path(target.name), message)


def _named(target: Target) -> list[str]:
    """The arguments that make Python run a program."""
    return ["-m", target.name] if target.module and target.module != "__main__" else [target.name]


def _flags() -> list[str]:
    """The options given to this interpreter, except those set by the environment, which will apply again."""
    flags: list[str] = []
    arguments = iter(sys.orig_argv[1:])
    for each in arguments:
        if not each.startswith("-") or each.startswith("-m"):
            break
        flags.append(each)
        if each in _WITH_VALUE:
            flags.append(next(arguments, ""))
    return flags


def _open_in_memory(code: bytes) -> int:
    """The descriptor of an open, unnamed file that the next program inherits.

    The runtime, which shares no code with this package, does the same (`memory_file.py`).
    """
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("instrument")
    else:
        from tempfile import TemporaryFile

        with TemporaryFile() as file:
            number = os.dup(file.fileno())
    with open(number, "wb", closefd=False) as memory:
        memory.write(code)
    os.lseek(number, 0, os.SEEK_SET)
    os.set_inheritable(number, True)
    return number


def _become(arguments: Sequence[str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *_flags(), *arguments])
