"""A Python that has imported torch, and forks a process for each program that it is asked to run.

Importing torch takes seconds, and the first optimizer imports torch's compiler, which takes as long again; hundreds of
tests run programs that do both. A process forked from this one has them already. In everything else it is what
`python program.py` starts: `__main__`, `sys.path`, the environment, the standard streams, and the way it ends. Two
frames of this file are below those of the program. `run_python` talks to it over the socket whose number is the only
argument.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import socket
import sys
import warnings
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NoReturn

LENGTH = 4
"""How many bytes a number has, that of the bytes in a request among them."""

STREAMS = 3
"""Standard input, output and error."""


def main() -> None:
    import torch._dynamo  # noqa: F401  Loads torch, too.

    del sys.path[0]  # The folder of this file.
    # The collections of garbage at the end of each process would otherwise go through all that is here already.
    gc.freeze()
    request = wait_for_requests(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        become(request["command"], request["folder"], request["environment"])
        run()


def wait_for_requests(channel: socket.socket) -> dict[str, Any] | None:
    """Fork for each request, and return in the child what is asked for; return None when nobody will ask any more."""
    while True:
        head, files, _, _ = socket.recv_fds(channel, LENGTH, STREAMS)
        if not head:
            return None
        request: dict[str, Any] = json.loads(channel.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
        child = os.fork()
        if not child:
            channel.close()
            for stream, file in enumerate(files):
                os.dup2(file, stream)
                os.close(file)
            return request
        for file in files:
            os.close(file)
        channel.sendall(child.to_bytes(LENGTH, "big"))
        _, status = os.waitpid(child, 0)
        channel.sendall(os.waitstatus_to_exitcode(status).to_bytes(LENGTH, "big", signed=True))


def become(command: list[str], folder: str, environment: dict[str, str]) -> None:
    """Make this process what `python *command` starts, up to the first line of its program."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.orig_argv[:] = [sys.executable, *command]
    while command[0] == "-W":
        sys.warnoptions.append(command[1])
        del command[:2]
    warnings._processoptions(sys.warnoptions)  # type: ignore[attr-defined]
    sys.argv[:] = command
    match command[0]:
        case "-c":
            first = ""
        case "-m":
            first = folder
        case path:
            first = str(Path(path).resolve().parent)
    added = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:0] = [first, *(str(Path(entry).absolute()) for entry in added)]
    importlib.invalidate_caches()
    sys.modules["torch"].default_generator.seed()  # Which importing torch does.


def run() -> None:
    """Run the program of `sys.argv`; an exception that it does not catch ends this process as it ends Python."""
    kind = sys.argv[0]
    try:
        if kind == "-m":
            del sys.argv[0]
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        else:
            module = ModuleType("__main__")
            sys.modules["__main__"] = sys.modules["__mp_main__"] = module  # The second is multiprocessing's name.
            exec(code_of_command(module) if kind == "-c" else code_of_script(module), module.__dict__)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001  As Python does.
        end(error)


def code_of_command(module: ModuleType) -> CodeType:
    """The code that stands after `-c`, without which `sys.argv` is the program's."""
    return compile(sys.argv.pop(1), "<string>", "exec", dont_inherit=True)


def code_of_script(module: ModuleType) -> CodeType:
    path = str(Path(sys.argv[0]).absolute())
    # The names that this version of Python gives to a script, of which this file is one.
    given = {name: value for name, value in globals().items() if name.startswith("__")}
    given |= {"__doc__": None, "__file__": path, "__loader__": SourceFileLoader("__main__", path)}
    module.__dict__.update(given)
    return compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)


def end(error: BaseException) -> NoReturn:
    """Report an exception as Python does, without the frames of this file."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error.with_traceback(trace), trace
    sys.excepthook(type(error), error, trace)
    sys.exit(1)


if __name__ == "__main__":
    main()
