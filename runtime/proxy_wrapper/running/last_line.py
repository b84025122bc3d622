"""The last line of a program that `instrument run` runs: what was found, where the trace is, what to type next."""

from __future__ import annotations

import atexit
import os
import sys
import time
from typing import Any, Final

_LONGEST_S: Final = 60.0
"""How long a program waits at its end for the findings to be counted; a large trace takes longer."""

_READER: Final = """
import sys
sys.path[:] = {path!r}
from proxy_trace.last_line import main
main({run!r}, {shown!r}, waits={waits!r})
"""


class LastLine:
    """Says the last line when this process ends: not for a process that it forks, and in a launch for rank 0 alone."""

    def __init__(self, logdir: str, shown_logdir: str, hint: str) -> None:
        """Remember what is known at the start.

        Args:
            logdir: the folder of the trace, or the file of a text log; absolute.
            shown_logdir: the same, as the user would type it.
            hint: what to say if nothing is traced.
        """
        self._logdir = logdir
        self._shown = shown_logdir
        self._hint = hint
        self._pid = os.getpid()
        self._started_s = time.time()
        # As they are now: the program may change them.
        self._path = sys.path[1:]
        self._exit = os._exit

    def install(self) -> None:
        """Say it at the end; as the first to be registered, this is the last to be called."""
        atexit.register(self.say)
        original = self._exit

        def _exit(status: int) -> Any:
            self.say(has_ended=False)
            original(status)

        os._exit = _exit

    def say(self, *, has_ended: bool = True) -> None:
        """Say the line, once; `has_ended` if this process has written the end of its trace."""
        if os.getpid() != self._pid:
            return
        self._pid = 0
        try:
            self._say(has_ended=has_ended)
        except (Exception, KeyboardInterrupt):  # noqa: BLE001  The program's own end is what counts.
            return

    def _say(self, *, has_ended: bool) -> None:
        from proxy_wrapper.launch import rank_in_environment

        if rank_in_environment(os.environ).rank:
            return
        if self._logdir.endswith(".log"):
            is_there = os.path.isfile(self._logdir)  # noqa: PTH113
            _write(f"the trace is in {self._shown}" if is_there else f"nothing was traced: {self._hint}")
            return
        run = self._find_run()
        if not run:
            _write(f"nothing was traced: {self._hint}")
            return
        name = os.path.basename(run)  # noqa: PTH119
        shown = os.path.join(self._shown, name)  # noqa: PTH118
        self._count_findings(run, shown, waits=has_ended)

    def _count_findings(self, run: str, shown: str, *, waits: bool) -> None:
        """Let a process of its own read the trace: what it loads, this one shall not have to."""
        import subprocess

        program = _READER.format(path=self._path, run=run, shown=shown, waits=waits)
        try:
            done = subprocess.run(
                [sys.executable, "-c", program],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_LONGEST_S,
                check=True,
            )
            _write(done.stdout.strip())
        except (OSError, subprocess.SubprocessError):
            _write(f"the trace is in {shown}; to see what looks wrong: proxy-trace summary {shown}")

    def _find_run(self) -> str:
        """The folder of the run that this process, or one that it has started, has left; "" if there is none."""
        from proxy_wrapper.launch import Launch

        try:
            folders = [entry.path for entry in os.scandir(self._logdir) if entry.is_dir()]
        except OSError:
            return ""
        own = [folder for folder in folders if _has_file_of(folder, os.getpid())]
        named = [folder for folder in folders if os.path.basename(folder) == Launch.of_this_process().run]  # noqa: PTH119
        recent = [folder for folder in folders if _changed_s(folder) >= self._started_s]
        return max(own or named or recent, default="")


def _has_file_of(folder: str, pid: int) -> bool:
    return any(f"-{pid}." in name or f"-{pid}-" in name for name in os.listdir(folder))  # noqa: PTH208


def _changed_s(folder: str) -> float:
    files = [entry for entry in os.scandir(folder) if entry.name.endswith(".jsonl")]
    return max((entry.stat().st_mtime for entry in files), default=0.0)


def _write(line: str) -> None:
    sys.stderr.write(f"instrument: {line}\n")
    sys.stderr.flush()
