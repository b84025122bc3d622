"""Policy ratios that are 1 in every pass over the same data are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.policy_ratios import policy_ratios
from tests.proxy_wrapper.source_patterns.found import found

UPDATE = """
def update(obs, actions, advantages, old_logp):
    for _ in range(epochs):
        logp = policy(obs).log_prob(actions)
        {ratio}
        surrogate = torch.min(ratio * advantages, {clipped} * advantages)
        (-surrogate.mean()).backward()
        optimizer.step()
"""
CLIPPED = "torch.clamp(ratio, 0.8, 1.2)"


@pytest.mark.parametrize(
    ("ratio", "line"),
    [
        ("ratio = torch.exp(logp - logp.detach())", 5),
        ("ratio = (logp - logp.detach()).exp()", 5),
        ("difference = logp - logp.detach()\n        ratio = torch.exp(difference)", 6),
        ("old = logp.detach(); old_logp = None\n        ratio = torch.exp(logp - old)", 6),
    ],
)
@pytest.mark.parametrize("clipped", [CLIPPED, "ratio.clip(0.8, 1.2)"])
def test_a_ratio_to_itself_is_found(ratio: str, line: int, clipped: str) -> None:
    ((told, _),) = found(UPDATE.format(ratio=ratio, clipped=clipped), policy_ratios)
    assert told == line


def test_batches_may_be_drawn_and_normalised_within_a_pass() -> None:
    text = """
    for _ in range(4):
        for idx in torch.randperm(n).split(64):
            logp = policy(obs[idx]).log_prob(actions[idx])
            a = adv[idx]
            a = (a - a.mean()) / a.std()
            ratio = torch.exp(logp - logp.detach())
            loss = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()
            loss.backward()
            optimizer.step()
    """
    assert [line for line, _ in found(text, policy_ratios)] == [7]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(UPDATE.format(ratio="ratio = torch.exp(logp - old_logp)", clipped=CLIPPED), id="an old policy"),
        pytest.param(
            UPDATE.format(ratio="ratio = torch.exp(logp - old_logp.detach())", clipped=CLIPPED), id="detached in vain"
        ),
        pytest.param(
            UPDATE.format(ratio="ratio = torch.exp(logp - logp.detach())", clipped="ratio"), id="nothing is clipped"
        ),
        pytest.param(
            UPDATE.format(ratio="ratio = torch.exp(logp - logp.detach())", clipped=CLIPPED).replace("epochs", "1"),
            id="a single pass",
        ),
        pytest.param(
            UPDATE.format(
                ratio="advantages = collect(policy); ratio = torch.exp(logp - logp.detach())", clipped=CLIPPED
            ),
            id="other data in each pass",
        ),
        pytest.param(
            UPDATE.format(ratio="ratio = torch.exp(logp - logp.detach())", clipped=CLIPPED).replace(
                "for _ in range(epochs)", "for obs, actions, advantages in rollouts"
            ),
            id="new data in each pass",
        ),
    ],
)
def test_other_ratios_are_not(text: str) -> None:
    assert found(text, policy_ratios) == []
