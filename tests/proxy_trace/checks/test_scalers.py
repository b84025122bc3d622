"""Scalers that skip steps, and clipping before they divide, are told at their places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACE = events.Location(3, "train.py", 20, "main")


def scaler(number: int = 1, **fields: Any) -> events.ScalerStep:
    return events.ScalerStep(1, location=3, id=number, optimizer_id=1, made=3, **fields)


@pytest.mark.parametrize(
    ("records", "codes"),
    [
        pytest.param([scaler(count=4, skipped=4)], [], id="at the start"),
        pytest.param([scaler(count=9, skipped=4, stuck=3)], ["scaler-skips-steps"], id="nothing lowers the scale"),
        pytest.param([scaler(count=9, skipped=4, stuck=2)], [], id="two optimizers of one scaler"),
        pytest.param([scaler(count=40, skipped=32)], ["scaler-skips-steps"], id="most steps"),
        pytest.param([scaler(count=90, skipped=32)], [], id="a third of the steps"),
        pytest.param([scaler(count=1, clipped=2)], ["clip-before-unscale"], id="clipped too early"),
        pytest.param([scaler(count=1, clipped=1)], [], id="clipped too early once"),
        pytest.param([scaler(undivided=2)], ["step-before-unscale"], id="steps without it"),
        pytest.param([scaler(undivided=1)], [], id="one step without it"),
        pytest.param([scaler(n, count=3, skipped=1) for n in (1, 2, 3)], ["scaler-skips-steps"], id="made anew"),
        pytest.param([scaler(n, count=3, skipped=1) for n in (1, 2)], [], id="two"),
    ],
)
def test_what_a_scaler_does_is_judged(
    tmp_path: Path, write_trace: WriteTrace, records: list[events.Event], codes: list[str]
) -> None:
    found = find(write_trace(tmp_path / "a.jsonl", PLACE, *records))
    assert [(each.code, each.place) for each in found if "s" in each.code and each.place] == [
        (code, "train.py:20") for code in codes
    ]
