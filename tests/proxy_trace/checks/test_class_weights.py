"""Weights of losses that favour frequent classes are told; others are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_trace.checks import class_weights
from tests.proxy_trace.checks.judged import find

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 60
POSITIVES = (torch.arange(ROWS) % 6 == 0).float()
"""One in six."""
CLASSES = torch.tensor([0, 0, 0, 0, 0, 0, 0, 1, 1, 2]).repeat(6)
TAGS = torch.stack([POSITIVES, POSITIVES.roll(1), (torch.arange(ROWS) % 10 == 0).float()], dim=1)


def judged(loss: Callable[[torch.Tensor], torch.Tensor], tmp_path: Path) -> list[str]:
    """What the check says where a layer is trained for two steps."""
    layer = Proxy.Proxy(nn.Linear(5, 3), recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    optimizer = torch.optim.SGD(layer.parameters(), 0.01)
    for _ in range(2):
        optimizer.zero_grad()
        loss(layer(torch.randn(ROWS, 5))).backward()
        optimizer.step()
    Proxy.unproxy(layer)
    return [f"{each.code}: {each.reason}" for each in find(tmp_path, class_weights.CHECK)]


def binary(weight: float, targets: torch.Tensor = POSITIVES) -> Callable[[torch.Tensor], torch.Tensor]:
    """A binary cross entropy with a weight of its positives."""
    return lambda out: F.binary_cross_entropy_with_logits(out[:, 0], targets, pos_weight=torch.tensor(weight))


@pytest.mark.parametrize(
    ("loss", "is_told"),
    [
        pytest.param(binary(1 / 5), True, id="positives by negatives"),
        pytest.param(binary(5.0), False, id="negatives by positives"),
        pytest.param(binary(0.02), False, id="far too small"),
        pytest.param(binary(0.45), False, id="chosen"),
        pytest.param(binary(0.25, (torch.arange(ROWS) % 5 != 0).float()), False, id="positives are frequent"),
        pytest.param(binary(1 / 5, POSITIVES * 0.9 + 0.05), False, id="soft targets"),
    ],
)
def test_weights_of_positives(tmp_path: Path, loss: Callable[[torch.Tensor], torch.Tensor], is_told: bool) -> None:
    told = "class-weights-inverse: pos_weight is 0.2, but only 20 of 120 targets are positive"
    assert judged(loss, tmp_path) == [told] * is_told


@pytest.mark.parametrize("is_inverse", [True, False])
def test_weights_of_several_positives(tmp_path: Path, is_inverse: bool) -> None:
    rates = TAGS.mean(0)
    weights = rates / (1 - rates) if is_inverse else (1 - rates) / rates
    found = judged(lambda out: F.binary_cross_entropy_with_logits(out, TAGS, pos_weight=weights), tmp_path)
    told = "class-weights-inverse: pos_weight is 0.111, but only 52 of 360 targets are positive"
    assert found == [told] * is_inverse


@pytest.mark.parametrize(
    ("weights", "is_told"),
    [
        pytest.param([0.7, 0.2, 0.1], True, id="frequencies"),
        pytest.param([42.0, 12.0, 6.0], True, id="counts"),
        pytest.param([1 / 0.7, 1 / 0.2, 1 / 0.1], False, id="inverse"),
        pytest.param([1.0, 1.0, 1.0], False, id="equal"),
        pytest.param([1.0, 0.1, 0.1], False, id="chosen"),
        pytest.param([1.0, 0.5, 0.5], False, id="chosen and alike"),
    ],
)
def test_weights_of_classes(tmp_path: Path, weights: list[float], is_told: bool) -> None:
    found = judged(lambda out: F.cross_entropy(out, CLASSES, weight=torch.tensor(weights)), tmp_path)
    assert found == ["class-weights-inverse: class 0 has the largest weight, and 84 of 120 targets"] * is_told


def test_targets_of_a_single_pass_are_too_few(tmp_path: Path) -> None:
    first = iter([torch.tensor(0.2), torch.tensor(5.0)])
    loss = lambda out: F.binary_cross_entropy_with_logits(out[:, 0], POSITIVES, pos_weight=next(first))  # noqa: E731
    assert judged(loss, tmp_path) == []
