"""Generated samples that have the label of the discriminator's pass in the generator's pass, too, are seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as entropy

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.events import GraphPattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_wrapper.writing.observers.memory import MemoryObserver

ONES, ZEROS = torch.ones(4, 1), torch.zeros(4, 1)


def of_generator(net: nn.Module, fake: torch.Tensor) -> torch.Tensor:
    return entropy(net(fake), ZEROS)


@pytest.mark.parametrize(
    ("loss", "is_seen"),
    [
        pytest.param(of_generator, True, id="the same label"),
        pytest.param(lambda net, fake: 0.1 * of_generator(net, fake) + fake.square().mean(), True, id="with others"),
        pytest.param(lambda net, fake: entropy(net(fake), ONES), False, id="the label of real samples"),
        pytest.param(lambda net, fake: -of_generator(net, fake), False, id="negated"),
        pytest.param(lambda net, fake: of_generator(net, fake + 1), False, id="other samples"),
        pytest.param(lambda net, fake: of_generator(net, fake) + entropy(net(fake), ONES), False, id="both labels"),
    ],
)
@pytest.mark.parametrize("is_generator_first", [False, True], ids=["discriminator first", "generator first"])
def test_the_label_of_generated_samples(
    logdir: str,
    seen: MemoryObserver,
    loss: Callable[[nn.Module, torch.Tensor], torch.Tensor],
    is_seen: bool,
    is_generator_first: bool,
) -> None:
    model = nn.ModuleDict({"g": nn.Linear(3, 5), "d": nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1))})
    Proxy.Proxy(model, name="model", recurse=True, logdir=logdir)
    generator, net = model["g"], model["d"]
    for _ in range(17):
        fake = generator(torch.randn(4, 3))
        if is_generator_first:
            loss(net, fake).backward()
        (entropy(net(torch.randn(4, 5)), ONES) + entropy(net(fake.detach()), ZEROS)).backward()
        if not is_generator_first:
            loss(net, fake).backward()
    found = [each for each in seen.events if isinstance(each, GraphPattern) and each.what == "label-of-generated"]
    assert [tuple(map(float, each.values)) for each in found] == [(0.0,)] * is_seen
