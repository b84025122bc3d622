"""What the operating system says of processes: who they are, when they started, whether they still run."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


def machine() -> str:
    """What tells this machine, since its last start, from every other; containers count as machines."""
    return "/".join((platform.node(), _read(_PROC / "sys/kernel/random/boot_id"), _link(_PROC / "self/ns/pid")))


def process_identity(pid: int) -> str:
    """What tells a process from all others, those that had its number before or will have it included."""
    return f"{machine()}/{pid}/{_start_ticks(pid)}"


def has_ended(identity: str) -> bool:
    """Whether the process that `process_identity` described is known to run no more; False on other machines."""
    parts = identity.rsplit("/", 2)
    return len(parts) == 3 and parts[0] == machine() and bool(parts[2]) and _start_ticks(int(parts[1])) != parts[2]


def process_start(pid: int | None = None) -> float:
    """When a process (this one, if none is named) started, in seconds of Unix time; now, where there is no telling."""
    ticks = _start_ticks(os.getpid() if pid is None else pid)
    booted = [line for line in _read(_PROC / "stat").splitlines() if line.startswith("btime ")]
    if not ticks or not booted:
        return time.time()
    return float(booted[0].split()[1]) + int(ticks) / os.sysconf("SC_CLK_TCK")


def _start_ticks(pid: int) -> str:
    """The start of a process in clock ticks since the machine's; "" if it has ended or there is no telling."""
    # The second field is the name in parentheses, and may hold anything.
    fields = _read(_PROC / str(pid) / "stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _link(path: Path) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115  `Path.readlink` would want the link to be a path.
    except OSError:
        return ""
