"""Gradients that are clipped too late, or not at all, are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, OTHER_VALUES, VALUES, find, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")


def clip(parameters: int, *, is_late: bool = False) -> events.Clip:
    return events.Clip(1, location=3, parameters=parameters, gradients=parameters, limit=1.0, is_late=is_late)


@pytest.mark.parametrize(
    ("gradients", "is_told"), [(2, True), (0, False)], ids=["it had some later", "it never had any"]
)
def test_clipping_before_the_backward_pass_is_told(
    tmp_path: Path, write_trace: WriteTrace, gradients: int, is_told: bool
) -> None:
    early = events.Clip(1, location=3, parameters=2, limit=1.0, tensor=1)
    found = [events.Gradient(4, tensor=1, statistics=VALUES), events.Update(5, tensor=1, statistics=OTHER_VALUES)]
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), early, *found * gradients)
    told = [(each.code, each.place) for each in find(path) if each.code.startswith("clip-")]
    assert told == [("clip-before-backward", "train.py:20")] * is_told


@pytest.mark.parametrize(
    ("clips", "told"),
    [
        pytest.param([clip(2)], [], id="in time"),
        pytest.param([clip(2, is_late=True)], ["clip-after-step"], id="late"),
        pytest.param([clip(2, is_late=True), clip(2)], [], id="late once"),
        pytest.param([clip(0)], ["clip-without-parameters"], id="nothing"),
        pytest.param([clip(2), clip(0)], [], id="nothing after the first"),
    ],
)
def test_clipping_is_judged_by_its_place(
    tmp_path: Path, write_trace: WriteTrace, clips: list[events.Event], told: list[str]
) -> None:
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), *clips)
    found = [each for each in find(path) if each.code.startswith("clip-")]
    assert [(each.code, each.place) for each in found] == [(code, "train.py:20") for code in told]
