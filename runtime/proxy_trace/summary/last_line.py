"""The line that `instrument run` prints at the end: the number of findings, the trace, and the next command."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

from proxy_wrapper.process.launch import rank_in_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_S: Final = 60.0
"""How long to wait for the findings. A large trace takes longer."""

_OTHERS_END_S: Final = 5.0
"""How long to wait for the files of other processes that end at the same time."""

_TAIL_BYTES: Final = 4096


class Told(TypedDict):
    """The data passed by the program that has ended.

    Attributes:
        logdir: the folder of its traces, or the file of its text log; absolute.
        shown: the same path as the user would type it.
        hint: why nothing is traced, if so.
        started_s: when it started, in Unix time.
        pid: the process.
        run: the name of its run, if known.
        waits: whether all processes of the run are about to end normally.
    """

    logdir: str
    shown: str
    hint: str
    started_s: float
    pid: int
    run: str
    waits: bool


class _TakesTooLongError(Exception):
    """Reading the trace takes too long."""


def main(told: Told) -> None:
    """Print the line on standard output. In a launch, only rank 0 prints it."""
    if rank_in_environment(os.environ).rank == 0:
        sys.stdout.write(f"instrument: {last_line(told)}\n")


def last_line(told: Told) -> str:
    """The line for the run that a program has written. Notes do not count as findings."""
    logdir = Path(told["logdir"])
    nothing = f"nothing was traced: {told['hint']}" if told["hint"] else "nothing was traced"
    if logdir.suffix == ".log":
        return f"the trace is in {told['shown']}" if logdir.is_file() else nothing
    run = find_run(logdir, told["pid"], told["run"], told["started_s"])
    if run is None:
        return nothing
    shown = os.path.join(told["shown"], run.name)  # noqa: PTH118
    command = f"proxy-trace summary {shlex.quote(shown)}"
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, _LONGEST_S)
    try:
        if told["waits"]:
            _wait_for_ends(run)
        words = _describe_findings(run)
    except (_TakesTooLongError, KeyboardInterrupt):
        return f"the trace is in {shown}; for the findings: {command}"
    except Exception as error:  # noqa: BLE001  The trace exists in any case.
        return f"the trace is in {shown} but could not be read ({error}); next: {command}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return f"{words}; the trace is in {shown}; next: {command}"


def _give_up(*_: Any) -> None:
    raise _TakesTooLongError


def _describe_findings(run: Path) -> str:
    from proxy_trace.checks.all_checks import all_checks, all_rules
    from proxy_trace.checks.choice import read_choice
    from proxy_trace.checks.finding import NOTE
    from proxy_trace.reading.trace import Trace
    from proxy_trace.summary.run_summary import summarize

    checks = all_checks()
    choice = read_choice(all_rules(checks), None, None, None)
    findings = summarize(Trace.open(run), checks=checks, choice=choice).findings
    number = sum(finding.severity != NOTE for finding in findings)
    return f"{number:,} finding{'s' if number != 1 else ''}" if number else "nothing looks wrong"


def find_run(logdir: Path, pid: int, run: str, started_s: float) -> Path | None:
    """The folder of the run written by a process or its children; None if there is none.

    If the process has several runs, it is the one with the given name, else the one written to last.

    Args:
        logdir: the folder of all runs.
        pid: the process.
        run: the name of its run, if known.
        started_s: when it started, in Unix time.
    """
    try:
        found = {folder: _files_of(folder) for folder in logdir.iterdir() if folder.is_dir()}
    except OSError:
        return None
    runs = {folder: files for folder, files in found.items() if files}
    own = [folder for folder, files in runs.items() if any(_is_of(name, pid) for name in files)]
    named = [folder for folder in runs if folder.name == run]
    recent = [folder for folder, files in runs.items() if max(files.values()) >= started_s]
    both = [folder for folder in own if folder.name == run]
    return max(both or own or named or recent, key=lambda folder: max(runs[folder].values()), default=None)


def _files_of(folder: Path) -> Mapping[str, float]:
    """The trace files in a folder, with the times of their last changes."""
    return {file.name: file.stat().st_mtime for file in folder.glob("*.jsonl")}


def _is_of(name: str, pid: int) -> bool:
    return f"-{pid}." in name or f"-{pid}-" in name


def _wait_for_ends(run: Path) -> None:
    deadline = time.monotonic() + _OTHERS_END_S
    while time.monotonic() < deadline and not all(map(_has_ended, run.glob("*.jsonl"))):
        time.sleep(0.05)


def _has_ended(file: Path) -> bool:
    """Whether the last record of a file is `RunEnd`."""
    with file.open("rb") as opened:
        opened.seek(max(0, opened.seek(0, 2) - _TAIL_BYTES))
        return b'"kind":"run_end"' in opened.read().rstrip().rpartition(b"\n")[2]
