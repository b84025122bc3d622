"""Freezing without an effect is told where it is written, if training has changed the parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, OTHER_VALUES, STEP, VALUES, find, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")


@pytest.mark.parametrize("has_changed", [True, False])
def test_only_what_has_changed_is_told(tmp_path: Path, write_trace: WriteTrace, has_changed: bool) -> None:
    record = events.FreezeWithoutEffect(2, attribute="require_grad", tensor=1, count=1, made=3)
    changes = [events.Update(4, tensor=1, statistics=OTHER_VALUES)] if has_changed else []
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, weight(), record, *changes, STEP)
    found = [(each.name, each.place) for each in find(path) if each.code == "freeze-has-no-effect"]
    assert found == [("model.w", "train.py:20")] * has_changed


@pytest.mark.parametrize("has_changed", [True, False])
def test_what_is_unfrozen_and_stays_frozen_is_told(tmp_path: Path, write_trace: WriteTrace, has_changed: bool) -> None:
    record = events.FreezeWithoutEffect(2, attribute="requires_grad", tensor=1, count=1, made=3, unfreezes=True)
    frozen = events.Parameter(1, "model.w", 1, "float32[2]", statistics=VALUES)
    happened = [events.Update(4, tensor=1, statistics=OTHER_VALUES)] if has_changed else []
    gradient = events.Gradient(3, tensor=1)
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, frozen, gradient, record, *happened, STEP)
    found = [(each.name, each.place) for each in find(path) if each.code == "freeze-has-no-effect"]
    assert found == [("model.w", "train.py:20")] * (not has_changed)


@pytest.mark.parametrize(("last", "is_told"), [(0, True), (2, False)], ids=["trained before", "trained since"])
def test_what_was_trained_before_and_stays_frozen_is_told(
    tmp_path: Path, write_trace: WriteTrace, last: int, is_told: bool
) -> None:
    record = events.FreezeWithoutEffect(2, 1, attribute="requires_grad", tensor=1, count=1, made=3, unfreezes=True)
    frozen = events.Parameter(1, "model.w", 1, "float32[2]", statistics=VALUES)
    trained = [
        events.Gradient(3, last, tensor=1, statistics=VALUES),
        events.Update(4, last, tensor=1, statistics=OTHER_VALUES),
    ]
    path = write_trace(tmp_path / "a.jsonl", PLACE, NET, frozen, *trained, record, STEP)
    found = [(each.name, each.place) for each in find(path) if each.code == "freeze-has-no-effect"]
    assert found == [("model.w", "train.py:20")] * is_told


def test_a_loop_that_unfreezes_what_was_frozen_is_told_as_a_warning(tmp_path: Path, write_trace: WriteTrace) -> None:
    before = events.Location(4, "train.py", 12, "main")
    record = events.SourcePattern(3, what="freeze-undone", names=["model"], made=3, other=4)
    path = write_trace(tmp_path / "a.jsonl", PLACE, before, NET, weight(), record)
    (finding,) = (each for each in find(path) if each.code == "freeze-has-no-effect")
    assert (finding.severity, finding.name, finding.place) == ("warning", "model", "train.py:20")
    assert finding.reason == "a loop over all parameters unfreezes what was frozen at train.py:12"
