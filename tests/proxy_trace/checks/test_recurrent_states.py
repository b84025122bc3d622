"""Recurrent states that are carried into shuffled batches are told, and others are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy_trace.checks import recurrent_states
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

PLACES = (events.Location(3, "train.py", 21, "main"), events.Location(4, "train.py", 20, "main"))
LSTM = events.Module(2, "model.lstm", "LSTM", 1)
CARRIED = events.SourcePattern(1, what="state-carried", names=["hidden"], made=3, other=4)
SHUFFLED = events.SourcePattern(1, what="state-carried-shuffled", names=["hidden"], made=3, other=4)


def loading(sampler: str, location: int = 4) -> events.Loading:
    return events.Loading(2, location=location, id=1, sampler=sampler, batches=9, count=1)


@pytest.mark.parametrize(
    ("records", "is_told"),
    [
        pytest.param((LSTM, CARRIED, loading("RandomSampler")), True, id="a loader that shuffles"),
        pytest.param((LSTM, SHUFFLED), True, id="a permutation in the source"),
        pytest.param((LSTM, CARRIED, loading("SequentialSampler")), False, id="a loader in order"),
        pytest.param((LSTM, CARRIED, loading("RandomSampler", 3)), False, id="the loader of another loop"),
        pytest.param((LSTM, CARRIED), False, id="no loader"),
        pytest.param((SHUFFLED,), False, id="no recurrent layer"),
    ],
)
def test_a_carried_state(
    tmp_path: Path, write_trace: WriteTrace, records: tuple[events.Event, ...], *, is_told: bool
) -> None:
    found = find(write_trace(tmp_path / "a.jsonl", *PLACES, NET, *records), recurrent_states.CHECK)
    assert [(each.code, each.place) for each in found] == [("hidden-state-not-reset", "train.py:21")] * is_told


def test_a_state_that_is_cut_at_every_step_is_told(tmp_path: Path, write_trace: WriteTrace) -> None:
    record = events.SourcePattern(1, what="state-cut", names=["h"], made=3, other=4)
    (finding,) = find(write_trace(tmp_path / "a.jsonl", *PLACES, NET, record), recurrent_states.CHECK)
    assert (finding.code, finding.name, finding.place) == ("state-cut-at-each-step", "h", "train.py:21")
