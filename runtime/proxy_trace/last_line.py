"""What `instrument run` says at the end of a program: how many findings, where the trace is, what to type next."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Final

from proxy_trace.checks.all_checks import all_checks, all_rules
from proxy_trace.checks.choice import read_choice
from proxy_trace.findings import NOTE
from proxy_trace.summary import summarize
from proxy_trace.trace import Trace

_OTHERS_END_S: Final = 5.0
"""How long the files of other processes, which end at the same time, are waited for."""

_TAIL_BYTES: Final = 4096


def main(run: str, shown: str, *, waits: bool) -> None:
    """Print the line for a run.

    Args:
        run: its folder.
        shown: what the user would call that.
        waits: whether all its processes are about to end in order.
    """
    folder = Path(run)
    if waits:
        _wait_for_ends(folder)
    print(last_line(folder, shown))


def last_line(folder: Path, shown: str) -> str:
    """The line for the run in `folder`; notes, which are only worth knowing, do not count.

    Args:
        folder: the run.
        shown: what the user would call it.

    Raises:
        TraceError: if it cannot be read.
    """
    checks = all_checks()
    choice = read_choice(all_rules(checks), None, None, None)
    findings = summarize(Trace.open(folder), checks=checks, choice=choice).findings
    number = sum(finding.severity != NOTE for finding in findings)
    told = f"{number:,} finding{'s' if number != 1 else ''}" if number else "nothing looks wrong"
    return f"{told}; the trace is in {shown}; next: proxy-trace summary {shlex.quote(shown)}"


def _wait_for_ends(folder: Path) -> None:
    deadline = time.monotonic() + _OTHERS_END_S
    while time.monotonic() < deadline and not all(map(_has_ended, folder.glob("*.jsonl"))):
        time.sleep(0.05)


def _has_ended(file: Path) -> bool:
    """Whether the last record of a file is the one that ends it."""
    with file.open("rb") as opened:
        opened.seek(max(0, opened.seek(0, 2) - _TAIL_BYTES))
        return b'"kind":"run_end"' in opened.read().rstrip().rpartition(b"\n")[2]
