"""What a trace says, less what no two runs have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from tests.proxy_wrapper.rough_norms import with_rough_norms

if TYPE_CHECKING:
    from pathlib import Path

_OF_THE_RUN: Final = ("time_us", "duration_us", "started", "run", "pid")
_OF_THE_DEVICE: Final = ("device", "computed", "variable")
"""Where a NaN came up first is looked for among values that are at hand."""


def records(folder: Path) -> list[dict[str, Any]]:
    """The records of the one process that wrote to `folder`."""
    (path,) = folder.glob("*/*.jsonl")
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]


def comparable(folder: Path) -> list[dict[str, Any]]:
    """The records without times, devices and the last digits of norms, and those of each thread in their order."""
    left_out = (*_OF_THE_RUN, *_OF_THE_DEVICE)
    kept = [{key: value for key, value in each.items() if key not in left_out} for each in records(folder)]
    return [with_rough_norms(each) for each in kept]


def problems(folder: Path) -> list[str]:
    """What the trace says went wrong with the tracing."""
    return [each["message"] for each in records(folder) if each["kind"] == "problem"]
