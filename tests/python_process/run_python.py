"""Runs a Python program in a process of its own, without waiting for it to import torch where that is possible."""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tests.python_process.preloaded_python import LENGTH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

READ_LATER = frozenset({"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"})
"""Variables of Python that the forked process follows. Others are read when Python starts."""

READ_AT_START = ("PYTHON", "OMP_", "MKL_", "KMP_", "LD_", "DYLD_", "TORCH", "PYTORCH_", "CUDA_", "CUBLAS_")
"""How the names of variables begin that Python and torch may read as they start and are imported."""


def run_python(
    arguments: Sequence[str | Path],
    *,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """What `python *arguments` prints and how it ends, as `subprocess.run` returns it.

    A program that is given by its path, or after `-c` or `-m`, runs in a process that is forked from one that has
    imported torch (`preloaded_python`). Commands with other options than `-W`, and those whose environment counts when
    Python or torch start, get a Python of their own. What tests how a process starts, or what it imports, uses
    `subprocess`.
    """
    command = [str(argument) for argument in arguments]
    environment = dict(os.environ if env is None else env)
    if sys.platform != "linux" or not _can_be_forked(command, environment):
        return subprocess.run(
            [sys.executable, *command],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
    return _preloaded_python().run(command, str(cwd or Path.cwd()), environment, timeout)


def _can_be_forked(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether a Python that has started already can run the command as a new one would."""
    words = list(command)
    while words[0] == "-W":
        del words[:2]
    names_program = words[0] in ("-c", "-m") or not words[0].startswith("-")
    return names_program and _read_at_start(environment) == _read_at_start(os.environ)


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value for name, value in environment.items() if name.startswith(READ_AT_START) and name not in READ_LATER
    }


@cache
def _preloaded_python() -> _PreloadedPython:
    return _PreloadedPython()


class _PreloadedPython:
    """The process from which those of the programs are forked; one for each process of the tests."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair()
        environment = {name: value for name, value in os.environ.items() if name not in READ_LATER}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("preloaded_python.py")), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=environment,
        )
        theirs.close()
        atexit.register(self._close)

    def run(
        self, command: list[str], folder: str, environment: dict[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        request = json.dumps({"command": command, "folder": folder, "environment": environment}).encode()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, Path(os.devnull).open() as nothing:
            files = [nothing.fileno(), out.fileno(), err.fileno()]
            socket.send_fds(self._channel, [len(request).to_bytes(LENGTH, "big")], files)
            self._channel.sendall(request)
            child = int.from_bytes(self._receive(), "big")
            self._channel.settimeout(timeout)
            try:
                code = int.from_bytes(self._receive(), "big", signed=True)
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                self._channel.settimeout(None)
                self._receive()
                raise subprocess.TimeoutExpired(command, timeout) from None
            self._channel.settimeout(None)
            return subprocess.CompletedProcess(command, code, _text(out), _text(err))

    def _receive(self) -> bytes:
        received = self._channel.recv(LENGTH, socket.MSG_WAITALL)
        if not received:
            raise EOFError(f"the Python that runs programs has ended: {self._process.wait()}")
        return received

    def _close(self) -> None:
        self._channel.close()
        self._process.wait()


def _text(file: IO[bytes]) -> str:
    """What was written to a file, with newlines alone at the ends of lines, as `subprocess` gives it."""
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n").replace("\r", "\n")
