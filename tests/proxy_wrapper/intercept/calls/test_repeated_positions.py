"""Positions in half precision are recorded with the line that counts them, once for each class of modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import GraphPattern, Location

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver


def sinusoids(count: int, width: int, dtype: torch.dtype) -> torch.Tensor:
    positions = torch.arange(count, dtype=dtype)[:, None]
    return torch.sin(positions * torch.logspace(0, -2, width, dtype=dtype))


class Added(nn.Module):
    def forward(self, x: torch.Tensor, *, length: int | None = None) -> torch.Tensor:
        if length is None:
            length = x.shape[1]
        return x + self.positions(length, x.dtype)

    def positions(self, length: int, dtype: torch.dtype) -> torch.Tensor:
        return sinusoids(length, 4, dtype)


class Kept(nn.Module):
    pe: torch.Tensor

    def __init__(self, dtype: torch.dtype, count: int = 300) -> None:
        super().__init__()
        positions = torch.arange(count, dtype=dtype)[:, None]
        self.register_buffer("pe", torch.sin(positions.float() * torch.logspace(0, -2, 4)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.pe[: x.size(1)].to(x.dtype)


def line(function: Callable[..., Any], offset: int) -> int:
    return function.__code__.co_firstlineno + offset


def recorded(
    model: nn.Module, steps: int, logdir: str, seen: MemoryObserver, dtype: torch.dtype = torch.float32
) -> list[tuple[int, int, int]]:
    """The line, the number and the exact number of each recorded pattern."""
    model = Proxy.Proxy(nn.Sequential(nn.Linear(4, 4), model).to(dtype), recurse=True, logdir=logdir)
    for _ in range(2):
        model(torch.randn(2, steps, 4, dtype=dtype))
    places = {event.id: event.line for event in seen.events if isinstance(event, Location)}
    patterns = [each for each in seen.events if isinstance(each, GraphPattern) and each.what == "positions-repeat"]
    return [(places[each.made], each.shape[0], each.dim) for each in patterns]


@pytest.mark.parametrize(
    ("model", "dtype", "place"),
    [
        pytest.param(Added(), torch.bfloat16, (sinusoids, 1), id="in a function that a method calls"),
        pytest.param(Kept(torch.bfloat16), torch.float32, (Kept.__init__, 2), id="for a table"),
    ],
)
def test_positions_that_repeat(
    model: nn.Module, dtype: torch.dtype, place: tuple[Any, int], logdir: str, seen: MemoryObserver
) -> None:
    assert recorded(model, 300, logdir, seen, dtype) == [(line(*place), 300, 256)]


@pytest.mark.parametrize(
    ("model", "steps", "dtype"),
    [
        pytest.param(Added(), 257, torch.bfloat16, id="exact"),
        pytest.param(Added(), 300, torch.float32, id="in single precision"),
        pytest.param(Kept(torch.float32), 300, torch.bfloat16, id="a table that is converted"),
        pytest.param(Kept(torch.bfloat16), 200, torch.float32, id="beyond every sequence"),
    ],
)
def test_positions_that_differ(
    model: nn.Module, steps: int, dtype: torch.dtype, logdir: str, seen: MemoryObserver
) -> None:
    assert not recorded(model, steps, logdir, seen, dtype)
