"""Graphs that the program keeps after their backward passes are seen, and graphs that may yet be used are not."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import GraphPattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver


class Run:
    """A program with a sum and lists of losses."""

    def __init__(self) -> None:
        self.total: Any = 0.0
        self.losses: list[Any] = []
        self.recent: deque[torch.Tensor] = deque(maxlen=10)

    def add(self, loss: torch.Tensor) -> None:
        self.total += loss

    def append(self, loss: torch.Tensor) -> None:
        self.losses.append(loss)

    def weigh(self, loss: torch.Tensor) -> None:
        self.total = self.total + loss.clone() * 32

    def item(self, loss: torch.Tensor) -> None:
        self.losses.append(loss.item())

    def detach(self, loss: torch.Tensor) -> None:
        self.total += loss.detach()

    def keep_recent(self, loss: torch.Tensor) -> None:
        self.recent.append(loss)

    def keep_first(self, loss: torch.Tensor) -> None:
        self.losses = self.losses or [loss]

    def in_cycle(self, loss: torch.Tensor) -> None:
        cycle: list[Any] = [loss]
        cycle.append(cycle)


def train(seen: MemoryObserver, logdir: str, keep: Callable[[Run, torch.Tensor], None], **settings: Any) -> list[float]:
    """How many graphs are said to be kept, where a layer is trained for 60 steps."""
    each = settings.pop("each", 1)
    run = Run()
    model = Proxy.Proxy(nn.Linear(3, 1), logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for index in range(60):
        loss = model(torch.ones(2, 3)).pow(2).mean()
        loss.backward(**settings)
        if index % each == 0:
            optimizer.step()
            optimizer.zero_grad()
        keep(run, loss)
    found = [event for event in seen.events if isinstance(event, GraphPattern) and event.what == "graph-kept"]
    return [float(event.values[0]) for event in found]


@pytest.mark.parametrize("keep", [Run.add, Run.append, Run.weigh])
def test_kept_graphs_are_seen_once(
    seen: MemoryObserver, logdir: str, keep: Callable[[Run, torch.Tensor], None]
) -> None:
    assert train(seen, logdir, keep) == [24]


@pytest.mark.parametrize("keep", [Run.item, Run.detach, Run.keep_recent, Run.keep_first, Run.in_cycle])
def test_numbers_and_few_losses_are_none(
    seen: MemoryObserver, logdir: str, keep: Callable[[Run, torch.Tensor], None]
) -> None:
    assert train(seen, logdir, keep) == []


@pytest.mark.parametrize("setting", ["retain_graph", "create_graph"])
@pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph")
def test_graphs_that_are_to_be_used_again_are_none(seen: MemoryObserver, logdir: str, setting: str) -> None:
    assert train(seen, logdir, Run.add, **{setting: True}) == []


def test_the_losses_of_a_step_are_none(seen: MemoryObserver, logdir: str) -> None:
    assert train(seen, logdir, Run.add, each=100) == []
