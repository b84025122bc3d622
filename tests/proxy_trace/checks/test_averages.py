"""Averages that stand still are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, OTHER_VALUES, STEP, VALUES, find, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")


@pytest.mark.parametrize(
    ("name", "moves", "is_told"), [("ema_net", False, True), ("ema_net", True, False), ("reference", False, False)]
)
def test_only_an_average_that_never_moved_is_told(
    tmp_path: Path, write_trace: WriteTrace, name: str, moves: bool, is_told: bool
) -> None:
    average = events.Module(2, name, "Net", 2)
    own = events.Parameter(2, f"{name}.w", 2, "float32[2]", requires_grad=True, statistics=VALUES)
    calls = [events.CallModule(1, module=2, no_grad=True, training=True), events.ReturnModule(2, module=2)] * 6
    moved = [events.Update(8, tensor=2, statistics=OTHER_VALUES, cause="in-place")] * moves
    happened = [*calls, events.Backward(6), events.Update(7, tensor=1, statistics=OTHER_VALUES), STEP, *moved]
    found = find(write_trace(tmp_path / "a.jsonl", NET, weight(), average, own, *happened))
    assert [each.name for each in found if each.code == "never-updated"] == [name] * is_told
