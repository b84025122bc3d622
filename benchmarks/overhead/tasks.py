"""Builds what `workloads` describes: model, optimizer, data and loss. For the workers, which import torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn

from overhead.networks import Adder, IdentityChain, LstmModel, MnistNet, ParameterBag, ResNet18, Transformer

if TYPE_CHECKING:
    from collections.abc import Callable

BATCHES = 8
"""How many batches there are; they come round."""


@dataclass(frozen=True)
class Task:
    """What is trained. `loss` takes the output and the target of a batch; `clip` bounds the gradients' norm."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    inputs: torch.Tensor
    targets: torch.Tensor
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    clip: float | None = None


def build(name: str, device: str = "cpu") -> Task:
    """The task of the workload called `name` on `device`, the same to the bit each time.

    Raises:
        KeyError: if there is no such workload.
    """
    torch.manual_seed(0)
    kind, _, size = name.partition(":")
    with torch.device(device):
        return CHAINS[kind](int(size)) if size else TASKS[name]()


def _mnist(batch_size: int) -> Task:
    model = MnistNet()
    data = torch.randn(BATCHES, batch_size, 1, 28, 28)
    target = torch.randint(10, (BATCHES, batch_size))
    return Task(model, torch.optim.Adadelta(model.parameters(), lr=1.0), data, target, F.nll_loss)


def _transformer(layers: int, width: int, heads: int, length: int, batch_size: int) -> Task:
    vocabulary = 256
    model = Transformer(layers, width, heads, length, vocabulary)
    data = torch.randint(vocabulary, (BATCHES, batch_size, length + 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    return Task(model, optimizer, data[:, :, :-1], data[:, :, 1:], _token_loss)


def _resnet18() -> Task:
    model = ResNet18(classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    data = torch.randn(BATCHES, 8, 3, 64, 64)
    return Task(model, optimizer, data, torch.randint(10, (BATCHES, 8)), F.cross_entropy)


def _lstm() -> Task:
    vocabulary = 1000
    model = LstmModel(2, 256, vocabulary)
    data = torch.randint(vocabulary, (BATCHES, 16, 33))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return Task(model, optimizer, data[:, :, :-1], data[:, :, 1:], _token_loss, clip=1.0)


def _token_loss(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


def _small(make: Callable[[int], nn.Module], size: int, width: int = 4) -> Task:
    """A task whose step does next to nothing beside what `make(size)` does."""
    model = make(size)
    data = torch.randn(BATCHES, width)
    return Task(model, torch.optim.SGD(model.parameters(), lr=1e-6), data, data, _sum_loss)


def _sum_loss(output: torch.Tensor, _: Any) -> torch.Tensor:
    return output.sum()


TASKS: dict[str, Callable[[], Task]] = {
    "mnist": partial(_mnist, 64),
    "mnist-batch1": partial(_mnist, 1),
    "transformer": partial(_transformer, 4, 128, 4, 64, 16),
    "transformer-small": partial(_transformer, 2, 64, 4, 32, 4),
    "transformer-12": partial(_transformer, 12, 256, 8, 64, 4),
    "resnet18": _resnet18,
    "lstm": _lstm,
}

CHAINS: dict[str, Callable[[int], Task]] = {
    "modules": partial(_small, lambda size: nn.Sequential(*(nn.Linear(4, 4) for _ in range(size)))),
    "tensors": partial(_small, lambda size: ParameterBag(size, 16)),
    "elements": partial(_small, lambda size: ParameterBag(1, 1000 * size)),
    "calls": partial(_small, IdentityChain),
    "operations": partial(_small, Adder),
}
