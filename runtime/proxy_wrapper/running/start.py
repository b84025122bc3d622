"""The start of a program run by `instrument run`. It corrects what Python derived from the name of the file.

Python was started with a file of code in memory. From here on, the program looks as if started by `python train.py`: it
has the same arguments, `__file__`, `__loader__` and first folder for imports.
"""

from __future__ import annotations

import importlib.machinery
import marshal
import os
import sys
from typing import Any, TypedDict

from proxy_wrapper.process.after_import import AfterImport
from proxy_wrapper.running.in_memory_files import InMemoryFiles
from proxy_wrapper.running.memory_file import take_memory_file
from proxy_wrapper.running.started_processes import CHILD, TYPED_NAME, MainProgram, StartedProcesses


class Message(TypedDict):
    """The message from `instrument run`.

    Attributes:
        module: the module to run as `python -m` would; "" for a script; "__main__" for a folder or an archive.
        script: the resolved path of the script; "" for a module.
        search: the first folder for imports: the script's; "" for the current one, for a module.
        flags: the options passed to Python.
        files: see `InMemoryFiles`.
        logdir: the absolute path of the trace's folder, or of a text log.
        shown_logdir: the same path as the user would type it.
        hint: what to print if nothing is traced.
        is_quiet: whether to print nothing at the end.
    """

    module: str
    script: str
    search: str
    flags: list[str]
    files: dict[str, tuple[bytes, bytes]]
    logdir: str
    shown_logdir: str
    hint: str
    is_quiet: bool


def begin(message: bytes) -> None:
    """Make the main program, a script, look as if run from its file."""
    told, name = _begin(message)
    path = name if os.path.isabs(name) else os.path.join(os.getcwd(), name)  # noqa: PTH109, PTH117, PTH118
    main = vars(sys.modules["__main__"])
    main["__file__"] = path
    main["__loader__"] = importlib.machinery.SourceFileLoader("__main__", path)
    sys.orig_argv[:] = [sys.orig_argv[0], *told["flags"], name, *sys.argv[1:]]


def begin_module(message: bytes) -> tuple[Any, ...]:
    """The arguments for the `runpy` function that runs a module as the main program.

    Raises:
        SystemExit: if there is no such module, with the same message as `python -m`.
    """
    import runpy

    from_runpy: Any = runpy
    told, name = _begin(message)
    is_named = told["module"] != "__main__"
    sys.argv[0] = "-m" if is_named else name
    before = ["-m"] if is_named else []
    sys.orig_argv[:] = [sys.orig_argv[0], *told["flags"], *before, name, *sys.argv[1:]]
    try:
        if is_named:
            _, spec, code = from_runpy._get_module_details(told["module"], from_runpy._Error)
        else:
            _, spec, code = from_runpy._get_main_module_details(from_runpy._Error)
    except from_runpy._Error as error:
        sys.exit(f"{sys.executable}: {error}")
    if is_named:
        sys.argv[0] = spec.origin
    return code, vars(sys.modules["__main__"]), None, "__main__", spec


def begin_child(number: int) -> None:
    """Make a process started by `multiprocessing` use the files that its parent has in memory."""
    _install(marshal.loads(take_memory_file(number)), MainProgram(b"", "", ""))


def _begin(message: bytes) -> tuple[Message, str]:
    """Make the corrections common to scripts and modules. Returns the message, and the name as typed by the user."""
    told: Message = marshal.loads(message)
    options: dict[str, Any] = sys._xoptions
    name, is_child = str(options.pop(TYPED_NAME)), options.pop(CHILD, False)
    code = take_memory_file(int(sys.argv[0].rpartition("/")[2]))
    sys.argv[0] = name
    search = told["search"] or os.getcwd()  # noqa: PTH109  As early as this, `pathlib` need not be loaded.
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        sys.path[0] = search
    elif told["module"] == "__main__":
        sys.path.insert(0, search)
    _install(told["files"], MainProgram(code, told["module"], told["script"]))
    if not (told["is_quiet"] or is_child):
        from proxy_wrapper.running.last_line import LastLine

        LastLine(told["logdir"], told["shown_logdir"], told["hint"]).install()
    return told, name


def _install(files: dict[str, tuple[bytes, bytes]], program: MainProgram) -> None:
    in_memory = InMemoryFiles(files)
    in_memory.install()
    AfterImport("runpy", in_memory.install_in_runpy)
    StartedProcesses(in_memory, program).install()
