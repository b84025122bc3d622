"""Runs a program by `python` and by `instrument run`, side by side."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class Ended(NamedTuple):
    """What a process has left."""

    code: int
    out: str
    err: str


def run_in(folder: Path, command: Sequence[str], stdin: str = "", **environment: str) -> Ended:
    """Run a command in `folder`."""
    done = subprocess.run(
        command,
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "INSTRUMENT_CACHE_DIR": str(folder.parent / "cache"),
            **environment,
        },
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def plainly(*arguments: str) -> list[str]:
    """The command by which Python runs a program."""
    return [sys.executable, *arguments]


def traced(*arguments: str) -> list[str]:
    """The command by which `instrument run` does."""
    return [sys.executable, "-m", "instrumentor", "run", *arguments]


def split_last_line(err: str) -> tuple[str, str]:
    """Standard error without the last line, and that line; "" if it has none of ours."""
    found = re.fullmatch(r"((?s:.*?))(instrument: [^\n]*\n)?", err)
    assert found is not None
    return found[1], found[2] or ""
