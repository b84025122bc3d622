"""Tensors that are computed and dropped are told of with their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_trace.checks import results
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace


class Masking(nn.Module):
    """Masks what it computes, or means to."""

    def __init__(self, *, is_right: bool) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.is_right = is_right

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.fc(x)
        return self.masked(scores)

    def masked(self, scores: torch.Tensor) -> torch.Tensor:
        return scores.masked_fill(scores > 0, 0.0)


class Dropping(Masking):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.fc(x)
        scores.masked_fill(scores > 0, 0.0)
        return scores


def trained(model: nn.Module, tmp_path: Path) -> list[tuple[str, str]]:
    proxied = Proxy.Proxy(model, recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    optimizer = torch.optim.SGD(proxied.parameters(), 0.01)
    for _ in range(2):
        optimizer.zero_grad()
        proxied(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    Proxy.unproxy(proxied)
    return [(each.name, each.place.rpartition(":")[2]) for each in find(tmp_path, results.CHECK)]


def test_what_is_dropped_is_told_with_its_line(tmp_path: Path) -> None:
    line = Dropping.forward.__code__.co_firstlineno + 2
    assert trained(Dropping(is_right=False), tmp_path) == [("scores.masked_fill", str(line))]


def test_what_is_assigned_is_not(tmp_path: Path) -> None:
    assert trained(Masking(is_right=True), tmp_path) == []


@pytest.mark.parametrize(
    ("what", "code"), [("residual-unread", "residual-not-added"), ("copy-changed", "result-discarded")]
)
def test_what_the_source_shows_is_told_with_its_line(
    what: str, code: str, tmp_path: Path, write_trace: WriteTrace
) -> None:
    place = events.Location(3, "train.py", 21, "forward")
    record = events.SourcePattern(1, what=what, names=["identity"], made=3)
    backward = events.Backward(2)
    (finding,) = find(write_trace(tmp_path / "a.jsonl", place, NET, record, backward), results.CHECK)
    assert (finding.code, finding.name, finding.place) == (code, "identity", "train.py:21")
