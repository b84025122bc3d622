"""An optimizer that steps with a learning rate of 0 is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find, said, weight

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


def steps(rates: list[tuple[float, ...]]) -> list[events.Event]:
    """A step for each of these, the learning rates of the groups."""
    found: list[events.Event] = []
    known: tuple[float, ...] = ()
    for number, now in enumerate(rates):
        if now != known:
            indices = [index for index in range(len(now)) if not known or now[index] != known[index]]
            groups = [events.ParameterGroup({"lr": now[index]}, () if known else [1]) for index in indices]
            found.append(events.Optimizer(1, number, id=1, optimizer="SGD", groups=groups, indices=indices))
            known = now
        found.append(events.OptimizerStep(5, number, optimizer="SGD", optimizer_id=1))
    return found


@pytest.mark.parametrize(
    ("rates", "is_told"),
    [
        pytest.param([(0.0,)] * 4, True, id="zero throughout"),
        pytest.param([(0.1,), *[(0.0,)] * 9], True, id="zero after the first step"),
        pytest.param([(0.0,), (0.1,), (0.2,)], False, id="a warm-up from zero"),
        pytest.param([(0.1,), (0.05,), (0.0,)], False, id="a schedule down to zero"),
        pytest.param([(0.0, 0.1)] * 4, False, id="a group that is frozen by its rate"),
        pytest.param([(0.0,)], False, id="a single step"),
    ],
)
def test_zero_in_most_steps_is_told(
    tmp_path: Path, write_trace: WriteTrace, rates: list[tuple[float, ...]], is_told: bool
) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), *steps(rates))
    assert [each.name for each in find(path) if each.code == "learning-rate-zero"] == ["SGD"] * is_told
    assert said(path, "rates")[0] == ("finding" if is_told else "passed")


def test_a_rate_that_no_record_tells_was_not_checked(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", NET, weight(), events.OptimizerStep(5, optimizer="SGD"))
    assert said(path, "rates") == ("not checked", ["no record of an optimizer"])
