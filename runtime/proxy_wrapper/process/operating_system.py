"""Facts about processes from the operating system: identity, start time, whether they still run."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")


def machine() -> str:
    """An identity of this machine since its last boot; containers count as machines."""
    return "/".join((platform.node(), _read(_PROC / "sys/kernel/random/boot_id"), _link(_PROC / "self/ns/pid")))


def process_identity(pid: int) -> str:
    """An identity of a process that earlier or later processes with the same pid do not share."""
    return f"{machine()}/{pid}/{_start_ticks(pid)}"


def has_ended(identity: str) -> bool:
    """Whether the process with this `process_identity` has certainly ended; False on other machines."""
    parts = identity.rsplit("/", 2)
    return len(parts) == 3 and parts[0] == machine() and bool(parts[2]) and _start_ticks(int(parts[1])) != parts[2]


def process_start(pid: int | None = None) -> float:
    """When a process (default: this one) started, in Unix seconds; the present time if unknown."""
    ticks = _start_ticks(os.getpid() if pid is None else pid)
    booted = [line for line in _read(_PROC / "stat").splitlines() if line.startswith("btime ")]
    if not ticks or not booted:
        return time.time()
    return float(booted[0].split()[1]) + int(ticks) / os.sysconf("SC_CLK_TCK")


def _start_ticks(pid: int) -> str:
    """The start of a process in clock ticks since boot; "" if it has ended or this is unknown."""
    # The second field is the name in parentheses, which may contain anything.
    fields = _read(_PROC / str(pid) / "stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _link(path: Path) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115  `Path.readlink` would parse the link as a path.
    except OSError:
        return ""
