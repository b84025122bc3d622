"""Places where all outputs of a layer are compared with the same label are seen, and others are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import GraphPattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver

ONES, ZEROS = torch.ones(4, 1), torch.zeros(4, 1)


def patterns(seen: MemoryObserver) -> list[tuple[str, tuple[float, ...]]]:
    events = [each for each in seen.events if isinstance(each, GraphPattern)]
    return [
        (each.what, tuple(map(float, each.values))) for each in events if each.what in ("one-label", "several-labels")
    ]


def scores(model: nn.Module) -> torch.Tensor:
    out: torch.Tensor = model(torch.randn(4, 3))
    return out


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        pytest.param(
            lambda net: F.binary_cross_entropy_with_logits(scores(net), ONES), [("one-label", (1.0, 1.0))], id="one"
        ),
        pytest.param(
            lambda net: (
                F.binary_cross_entropy_with_logits(scores(net), ONES)
                + F.binary_cross_entropy(scores(net).sigmoid().squeeze(1), ONES[:, 0])
            ),
            [("one-label", (1.0, 2.0))],
            id="two outputs, in one loss",
        ),
        pytest.param(
            lambda net: 0.5 * F.binary_cross_entropy_with_logits(scores(net), 0.9 * ONES) + scores(net).mean(),
            [("one-label", (pytest.approx(0.9), 1.0))],
            id="with another loss",
        ),
        pytest.param(
            lambda net: (
                F.binary_cross_entropy_with_logits(scores(net), ONES)
                + F.binary_cross_entropy_with_logits(scores(net), ZEROS)
            ),
            [],
            id="real and generated samples",
        ),
        pytest.param(
            lambda net: F.binary_cross_entropy_with_logits(scores(net), torch.tensor([[1.0], [0.0], [1.0], [1.0]])),
            [],
            id="labels of a data set",
        ),
        pytest.param(
            lambda net: F.binary_cross_entropy_with_logits(scores(net) - scores(net), ONES), [], id="ranks pairs"
        ),
        pytest.param(lambda net: F.mse_loss(scores(net), ONES), [], id="another loss"),
    ],
)
def test_labels_at_a_place(
    logdir: str,
    seen: MemoryObserver,
    loss: Callable[[nn.Module], torch.Tensor],
    expected: list[tuple[str, tuple[float, ...]]],
) -> None:
    model = Proxy.Proxy(nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1)), recurse=True, logdir=logdir)
    for _ in range(20):
        loss(model).backward()
    assert patterns(seen) == expected


@pytest.mark.parametrize(
    ("first", "passes", "expected"),
    [
        pytest.param(8, 40, [], id="soon"),
        pytest.param(20, 40, ["one-label", "several-labels"], id="later"),
        pytest.param(100, 128, ["one-label", "several-labels"], id="much later"),
        pytest.param(20, 15, [], id="too few passes"),
    ],
)
def test_labels_that_change(logdir: str, seen: MemoryObserver, first: int, passes: int, expected: list[str]) -> None:
    model = Proxy.Proxy(nn.Linear(3, 1), recurse=True, logdir=logdir)
    for number in range(passes):
        F.binary_cross_entropy_with_logits(scores(model), ONES if number < first else ZEROS).backward()
    assert [what for what, _ in patterns(seen)] == expected


def test_a_frozen_layer_is_not_judged(logdir: str, seen: MemoryObserver) -> None:
    model = Proxy.Proxy(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1).requires_grad_(False)), logdir=logdir)
    for _ in range(20):
        F.binary_cross_entropy_with_logits(scores(model), ONES).backward()
    assert patterns(seen) == []
