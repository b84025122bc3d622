"""Targets of Q-learning that look past the end of an episode are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.unread_ends import unread_ends
from tests.proxy_wrapper.source_patterns.found import found

UPDATE = """
def update(batch):
    {}
    next_values = target_net(batch.next_state).max(1).values
    {}
"""
ENDS = "dones = torch.tensor(batch.done)"
TARGET = "target = rewards + gamma * next_values"


@pytest.mark.parametrize(
    ("ends", "target", "name"),
    [
        (ENDS, TARGET, "dones"),
        ("not_done = 1 - batch.done", "return self.gamma * next_values + batch.reward", "not_done"),
        ("done = torch.tensor(done)", TARGET, "done"),
        ("terminal = torch.cat(batch.terminal)", "q = reward_batch + next_values * args.gamma", "terminal"),
    ],
)
def test_ends_that_are_computed_and_never_read(ends: str, target: str, name: str) -> None:
    ((line, (_, unread)),) = found(UPDATE.format(ends, target), unread_ends)
    assert (line, unread) == (5, name)


@pytest.mark.parametrize(
    ("ends", "target"),
    [
        pytest.param(ENDS, TARGET + " * (1 - dones)", id="they are read"),
        pytest.param(ENDS, "next_values[dones] = 0\n    " + TARGET, id="they select"),
        pytest.param(ENDS, "next_values[final_mask] = 0\n    " + TARGET, id="a mask"),
        pytest.param("s, a, rewards, dones = batch", TARGET, id="they are only unpacked"),
        pytest.param("pass", TARGET, id="a task without an end"),
        pytest.param(ENDS, "target = rewards + next_values", id="no discount"),
        pytest.param(ENDS, "target = costs + gamma * next_values", id="no reward"),
    ],
)
def test_other_targets(ends: str, target: str) -> None:
    assert found(UPDATE.format(ends, target), unread_ends) == []
