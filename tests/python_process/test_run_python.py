"""A program that `run_python` runs cannot tell that its process was forked."""

from __future__ import annotations

import os
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from tests.python_process.run_python import run_python

if TYPE_CHECKING:
    from pathlib import Path

PROGRAMS = {
    "names and arguments": """
        'What this is.'
        import os, sys, warnings
        print(sys.argv, __name__, __file__, __doc__, __package__, __spec__, sorted(globals()))
        print(sys.path, sys.orig_argv, sys.warnoptions, sys.dont_write_bytecode, os.getcwd())
        print(sorted(os.environ.items()))
        print(sys.modules["__main__"].__dict__ is globals(), type(__loader__).__name__, sys.stdout.line_buffering)
        """,
    "an import beside it": "import beside; print(beside.__file__)",
    "an exception": """
        def fail():
            raise ValueError("mine")
        fail()
        """,
    "a mistake in its syntax": "print('never'\n",
    "an end by sys.exit": "import atexit, sys; atexit.register(print, 'last words'); sys.exit(7)",
    "an end by a text": "import sys; sys.exit('too bad')",
    "an end by a signal": "import os, signal; print('out', flush=True); os.kill(os.getpid(), signal.SIGKILL)",
    "a warning": "import warnings; warnings.warn('here')",
    "an object that is left": """
        class Left:
            def __del__(self):
                print("gone")
        left = Left()
        """,
    "a thread that is left": """
        import threading, time
        threading.Thread(target=lambda: (time.sleep(0.1), print("done"))).start()
        """,
    "random numbers": "import torch; torch.manual_seed(0); print(torch.rand(3), torch.get_num_threads())",
    "an object from a process of its own": """
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        class Net:
            pass

        def make():
            return Net()

        if __name__ == "__main__":
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                print(type(pool.submit(make).result()))
        """,
    "standard input": "import sys; print(repr(sys.stdin.read()))",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_prints_the_same_and_ends_the_same(name: str, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "program.py").write_text(dedent(PROGRAMS[name]))
    environment = {**os.environ, "PYTHONPATH": "elsewhere", "PYTHONDONTWRITEBYTECODE": "1", "MINE": "1"}
    command = ["-W", "always", "program.py", "one", "two"]
    wanted = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    ended = run_python(command, cwd=tmp_path, env=environment)
    assert (ended.returncode, ended.stdout, ended.stderr) == (wanted.returncode, wanted.stdout, wanted.stderr)


def test_code_of_the_command(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv, sys.path[0], __name__)"
    assert run_python(["-c", code, "one"], cwd=tmp_path).stdout == "['-c', 'one']  __main__\n"


def test_torch_is_there_already() -> None:
    assert run_python(["-c", "import sys; print('torch' in sys.modules)"]).stdout == "True\n"


def test_two_programs_that_set_no_seed_have_other_random_numbers() -> None:
    code = "import random, torch; print(torch.rand(4), random.random())"
    assert len({run_python(["-c", code]).stdout for _ in range(2)}) == 2


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "OMP_NUM_THREADS"])
def test_what_counts_at_the_start_of_python_or_torch_gets_a_process_of_its_own(name: str) -> None:
    ended = run_python(["-c", "import sys; print('torch' in sys.modules)"], env={**os.environ, name: "3"})
    assert ended.stdout == "False\n"


def test_a_program_that_takes_too_long_is_ended() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_python(["-c", "import time; time.sleep(100)"], timeout=0.5)
    assert run_python(["-c", "print(1)"]).stdout == "1\n"
