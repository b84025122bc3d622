"""Instruments a script, runs it, and reads what `proxy-trace summary` finds in its trace, as a user would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OF_GOOD_RUN = "differs-from-good-run"
LONGEST_S = 600
"""What takes longer than this is ended and counts as failed; scripts here take seconds."""


class RunFailedError(Exception):
    """A script could not be instrumented, run or summarised."""


@dataclass(frozen=True)
class Finding:
    """One finding of a summary.

    Attributes:
        code: what was found, such as "grad-not-cleared".
        severity: "error", "warning" or "note".
        name: what it is about, such as a parameter.
        place: "file:line" in the script, or "".
    """

    code: str
    severity: str
    name: str
    place: str

    @property
    def is_alarm(self) -> bool:
        """Whether it says that something is wrong, or looks so."""
        return self.severity != "note"


class Seen(NamedTuple):
    """What a summary says of a run: its findings, and in what it deviates from a good run, if it was given one."""

    findings: list[Finding]
    deviations: list[Mapping[str, Any]]


def trace_script(script: Path) -> list[Finding]:
    """Run a script instrumented at INFO, in a folder of its own, and return what the summary of its trace finds.

    Args:
        script: any script that takes no arguments; it may import what lies beside it.

    Raises:
        RunFailedError: one of the three steps failed, or took too long.
    """
    with tempfile.TemporaryDirectory(prefix="diagnosis-") as name:
        return _summarize(_trace(script, Path(name))).findings


def trace_pair(buggy: Path, correct: Path) -> tuple[Seen, list[Finding]]:
    """Run two scripts likewise; the summary of the first has the second run to compare with.

    Raises:
        RunFailedError: one of the steps failed, or took too long.
    """
    with tempfile.TemporaryDirectory(prefix="diagnosis-") as name:
        good, run = (_trace(script, Path(name, script.stem)) for script in (correct, buggy))
        return _summarize(run, good), _summarize(good).findings


def _trace(script: Path, folder: Path) -> Path:
    """The trace of a script that is run in a folder."""
    folder.mkdir(exist_ok=True)
    path = os.pathsep.join(filter(None, [str(script.resolve().parent), os.environ.get("PYTHONPATH", "")]))
    # One thread each: several scripts may be running, and what they compute does not depend on how many there are.
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    _run(["-m", "instrumentor", str(script.resolve()), "-o", script.name], folder, environment)
    _run([script.name], folder, environment)
    if not (folder / "proxy_trace").exists():
        raise RunFailedError(f"{script.name} left no trace: no model was found in it")
    return folder / "proxy_trace"


def _summarize(trace: Path, good: Path | None = None) -> Seen:
    against = ["--against", str(good)] if good is not None else []
    command = ["-m", "proxy_trace", "summary", str(trace), *against, "--format", "json"]
    summary = json.loads(_run(command, trace.parent, os.environ))
    told = (summary["against"] or {}).get("deviations", [])
    return Seen(read_findings(summary), [deviation for deviation, _ in told])


def read_findings(summary: Mapping[str, Any]) -> list[Finding]:
    """The findings of a summary as JSON; what a good run had, and it has not, is none of a check's."""
    return [
        Finding(each["code"], each["severity"], each["name"], each["place"])
        for each in summary["findings"]
        if each["code"] != _OF_GOOD_RUN
    ]


def _run(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """What a Python process prints."""
    try:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RunFailedError(f"{arguments[0]} took longer than {LONGEST_S} s") from None
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it printed nothing"]
        raise RunFailedError(f"{' '.join(arguments[:2])} ended with exit code {done.returncode}: {last[0]}")
    return done.stdout
