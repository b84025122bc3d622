"""Batch norms whose running statistics cannot settle are told where they were made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "net.py", 7, "Net.__init__")


@pytest.mark.parametrize(
    ("momentum", "is_tracked", "calls", "is_told"),
    [
        (0.9, True, 2, True),
        (0, True, 2, True),
        (0.1, True, 2, False),
        (None, True, 2, False),
        (0.9, False, 2, False),
        (0.9, True, 1, False),
    ],
)
def test_a_momentum_of_another_library_is_told(
    tmp_path: Path, write_trace: WriteTrace, momentum: float | None, is_tracked: bool, calls: int, is_told: bool
) -> None:
    settings: dict[str, events.Setting] = {"momentum": momentum, "track_running_stats": is_tracked}
    norm = events.Module(2, "model.bn", "BatchNorm2d", 1, 1, made=3, settings=settings)
    called = [events.CallModule(1, module=2, training=True), events.ReturnModule(2, module=2)] * calls
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, norm, weight(), *called)
    found = [each for each in find(path) if each.code == "batch-norm-never-settles"]
    assert [(each.name, each.place) for each in found] == [("model.bn", "net.py:7")] * is_told
