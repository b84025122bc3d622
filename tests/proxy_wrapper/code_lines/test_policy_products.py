"""Products of log-probabilities and returns are found by their names, unless something may negate them."""

from __future__ import annotations

import ast

import pytest

from proxy_wrapper.code_lines.policy_products import may_negate, policy_products


@pytest.mark.parametrize(
    "line",
    [
        "loss.append(log_prob * R)",
        "loss = (log_probs * returns.detach()).sum()",
        "loss = (self.returns[t] * self.saved_log_probs[t]).mean()",
        "loss = (dist.log_prob(action) * (rewards - baseline)).mean()",
        "loss = torch.min(ratio * advantages, clipped * advantages).mean()",
        "loss = (logp_a * torch.as_tensor(adv)).mean()",
        "loss = (log_probs * (returns - returns.mean()) / returns.std()).mean()",
    ],
)
def test_products_are_found(line: str) -> None:
    tree = ast.parse(line)
    assert list(policy_products(tree)) == [1]
    assert not may_negate(tree)


@pytest.mark.parametrize(
    "text",
    [
        "loss = (log_prob * -R).sum()",
        "loss = (log_prob * cost).sum()",
        "loss = (log_prob * neg_reward).sum()",
        "loss = (alpha * log_prob - q).mean()",
        "advantage = value - reward\nloss = (log_prob * advantage).sum()",
        "advantage = (value - reward) / scale\nloss = (log_prob * advantage).sum()",
    ],
)
def test_other_products_are_not(text: str) -> None:
    assert list(policy_products(ast.parse(text))) == []


@pytest.mark.parametrize(
    ("text", "is_negation"),
    [
        ("returns = -returns", True),
        ("returns = -1 * returns", True),
        ("returns *= -1", True),
        ("weights = torch.neg(advantages)", True),
        ("weights = rewards.mul(-1.0)", True),
        ("reward = -abs(angle)", False),
        ("reward = -1.0 if done else 0.0", False),
        ("for r in rewards[::-1]: R = r + gamma * R", False),
        ("entropy = -(p * p.log()).sum(-1)", False),
    ],
)
def test_what_may_negate_returns(text: str, is_negation: bool) -> None:
    assert may_negate(ast.parse(text)) == is_negation
