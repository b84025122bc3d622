"""Differences of bytes that wrap around are told of modules, and of the code that calls a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import Location, SourcePattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver

DARK, BRIGHT = torch.full((2, 3), 5, dtype=torch.uint8), torch.full((2, 3), 9, dtype=torch.uint8)
FRAMES = torch.stack([DARK, BRIGHT], 1)


class Motion(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 1)

    def forward(self, frames: torch.Tensor) -> Any:
        before, after = frames[:, 1], frames[:, 0]
        return self.linear((after - before).float())


class Converted(Motion):
    def forward(self, frames: torch.Tensor) -> Any:
        frames = frames.float()
        return self.linear(frames[:, 0] - frames[:, 1])


class Chosen(Motion):
    def forward(self, frames: torch.Tensor) -> Any:
        a, b = frames[:, 0], frames[:, 1]
        return self.linear(torch.where(a > b, a - b, b - a).float())


def call_with_difference(net: nn.Module) -> None:
    for before, after in [(BRIGHT, DARK)]:
        difference = after - before
        net(difference.float())


def call_with_brighter(net: nn.Module) -> None:
    for before, after in [(DARK, BRIGHT)]:
        difference = after - before
        net(difference.float())


def call_or_subtract(net: nn.Module, is_on: bool = False) -> None:
    for before, after in [(BRIGHT, DARK)]:
        x = after.float()
        if is_on:
            x = (after - before).float()
        net(x)


def lines(seen: MemoryObserver) -> list[int]:
    """The lines of the recorded differences."""
    places = {event.id: event.line for event in seen.events if isinstance(event, Location)}
    patterns = [each for each in seen.events if isinstance(each, SourcePattern)]
    return [places[each.made] for each in patterns if each.what == "unsigned-difference"]


@pytest.mark.parametrize(
    ("net", "frames", "is_told"),
    [
        pytest.param(Motion(), FRAMES, True, id="of its frames"),
        pytest.param(Motion(), FRAMES.flip(1), False, id="never negative"),
        pytest.param(Motion(), FRAMES.int(), False, id="numbers with a sign"),
        pytest.param(Converted(), FRAMES, False, id="converted before"),
        pytest.param(Chosen(), FRAMES, False, id="the positive one"),
    ],
)
def test_differences_in_a_module(
    net: Motion, frames: torch.Tensor, is_told: bool, logdir: str, seen: MemoryObserver
) -> None:
    traced = Proxy.Proxy(net, recurse=True, logdir=logdir)
    for _ in range(2):
        traced(frames)
    assert lines(seen) == [Motion.forward.__code__.co_firstlineno + 2] * is_told


@pytest.mark.parametrize(
    ("call", "is_told"), [(call_with_difference, True), (call_with_brighter, False), (call_or_subtract, False)]
)
def test_differences_in_the_code_that_calls_a_model(
    call: Callable[[nn.Module], None], is_told: bool, logdir: str, seen: MemoryObserver
) -> None:
    traced = Proxy.Proxy(nn.Linear(3, 1), logdir=logdir)
    call(traced)
    call(traced)
    assert lines(seen) == [call.__code__.co_firstlineno + 2] * is_told
