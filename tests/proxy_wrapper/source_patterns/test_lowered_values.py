"""Losses of actors that lower the values of their actions are found, where the critic learns rewards."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.lowered_values import lowered_values
from tests.proxy_wrapper.source_patterns.found import found_in_file

UPDATE = """def update(self, state, action, reward, next_state, done):
    target = reward + self.gamma * (1 - done) * self.target(next_state, self.target_actor(next_state))
    critic_loss = F.mse_loss(self.critic(state, action), target.detach())
    critic_loss.backward()
    actor_loss = {}
    actor_loss.backward()
"""
RIGHT = "-self.critic(state, self.actor(state)).mean()"
WRONG = "self.critic(state, self.actor(state)).mean()"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(UPDATE.format(WRONG), id="a method"),
        pytest.param(UPDATE.format("torch.mean(self.critic(state, self.actor(state)))"), id="a function"),
        pytest.param(UPDATE.format("self.critic(torch.cat([state, self.actor(state)], 1)).mean()"), id="joined"),
        pytest.param(UPDATE.format("values.mean(); values = self.critic(state, self.actor(state))"), id="a variable"),
        pytest.param(
            UPDATE.format(WRONG).replace("self.critic(state", "self.critic.Q1(state"), id="one of two critics"
        ),
    ],
)
def test_values_that_are_lowered(text: str) -> None:
    assert found_in_file(text, lowered_values) == [(5, ("actor_loss",))]


def test_methods_of_one_class_are_read_together() -> None:
    lines = UPDATE.format(WRONG).splitlines()
    methods = [*lines[:4], "def update_actor(self, state):", *lines[4:]]
    text = "class Agent:\n" + "".join(f"    {line}\n" for line in methods)
    assert found_in_file(text, lowered_values) == [(7, ("actor_loss",))]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(UPDATE.format(RIGHT), id="raised"),
        pytest.param(UPDATE.format(WRONG.replace("mean()", "mean().neg()")), id="negated by a method"),
        pytest.param(UPDATE.format(WRONG).replace("reward", "cost"), id="costs"),
        pytest.param(UPDATE.format(WRONG).replace("target = reward", "target = -reward"), id="negated rewards"),
        pytest.param(UPDATE.format(WRONG).replace("actor_loss", "adversary_loss"), id="an adversary"),
        pytest.param(UPDATE.format(WRONG) + "    actor_loss = -actor_loss", id="negated later"),
        pytest.param(UPDATE.format(WRONG).replace("actor_loss.b", "(-actor_loss).b"), id="negated at the pass"),
        pytest.param(UPDATE.format("self.critic(state, action).mean()"), id="given actions"),
        pytest.param(UPDATE.format("self.other(state, self.actor(state)).mean()"), id="another model"),
    ],
)
def test_values_that_are_raised_or_not_rewards(text: str) -> None:
    assert found_in_file(text, lowered_values) == []
