"""Batches that come in the order of their classes are seen, and others are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import GraphPattern

if TYPE_CHECKING:
    from proxy_wrapper.writing.observers.memory import MemoryObserver

SORTED = torch.arange(4).repeat_interleave(12)
SHUFFLED = SORTED[torch.randperm(48, generator=torch.Generator().manual_seed(0))]


@pytest.mark.parametrize(
    ("labels", "size", "epochs", "has_steps", "is_seen"),
    [
        pytest.param(SORTED, 8, 3, True, True, id="sorted"),
        pytest.param(SORTED, 8, 2, True, True, id="two epochs"),
        pytest.param(SORTED, 8, 1, True, False, id="one epoch"),
        pytest.param(SORTED, 16, 3, True, False, id="few batches"),
        pytest.param(SORTED[::3], 2, 3, True, False, id="few samples"),
        pytest.param(SORTED, 8, 3, False, False, id="no step between the classes"),
        pytest.param(SHUFFLED, 8, 3, True, False, id="shuffled"),
        pytest.param(torch.zeros(48, dtype=torch.int64), 8, 3, True, False, id="one class"),
    ],
)
def test_classes_in_order(
    logdir: str, seen: MemoryObserver, labels: torch.Tensor, size: int, epochs: int, has_steps: bool, is_seen: bool
) -> None:
    model = Proxy.Proxy(nn.Linear(3, 4), recurse=True, logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        for batch in labels.split(size):
            F.cross_entropy(model(torch.ones(len(batch), 3)), batch).backward()
            if has_steps:
                optimizer.step()
    found = [each for each in seen.events if isinstance(each, GraphPattern) and each.what == "classes-in-order"]
    assert [tuple(each.values) for each in found] == [(len(labels) // size, 0.0, 3.0)] * is_seen
