"""Softmaxes over something else than the scores of classes are found in the graph of a loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from torch.distributions import Categorical

from proxy_wrapper.loss_graph.class_scores import classes_over_samples
from proxy_wrapper.loss_graph.graph import LossGraph

if TYPE_CHECKING:
    from collections.abc import Callable

LABELS = torch.tensor([0, 2, 1, 1])


def of_slots(x: torch.Tensor) -> torch.Tensor:
    """Attention of slots, normalised over the slots and then over the inputs."""
    weights = x.softmax(0)
    return (weights / weights.sum(-1, keepdim=True)) @ x.t()


@pytest.mark.parametrize(
    ("compute", "is_found"),
    [
        (lambda x: -Categorical(x.softmax(0)).log_prob(LABELS), True),
        (lambda x: -Categorical(x.softmax(-1)).log_prob(LABELS), False),
        (lambda x: -Categorical(logits=x).log_prob(LABELS), False),
        (lambda x: F.nll_loss(x.log_softmax(0), LABELS), True),
        (lambda x: F.nll_loss(x.log_softmax(1), LABELS), False),
        (lambda x: F.nll_loss((x.softmax(0) + 1e-8).log(), LABELS), True),
        (lambda x: F.nll_loss((x.softmax(1) + 1e-8).log(), LABELS), False),
        (of_slots, False),
        (lambda x: F.cross_entropy(x, LABELS), False),
    ],
)
def test_classes_that_sum_to_one_over_the_samples(
    compute: Callable[[torch.Tensor], torch.Tensor], is_found: bool
) -> None:
    x = torch.randn(4, 3, requires_grad=True)
    graph = LossGraph(compute(x * 1.0).sum().grad_fn)
    assert [each.what for each in classes_over_samples(graph)] == ["class-softmax"] * is_found
