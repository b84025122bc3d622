"""Small models and data for the programs."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

FEATURES = 6
CLASSES = 3


class Perceptron(nn.Module):
    """Takes (n, 6), gives (n, 3)."""

    def __init__(self, hidden: int = 8) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, hidden)
        self.second = nn.Linear(hidden, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.second(torch.tanh(self.first(x)))
        return out


class Normed(nn.Module):
    """The same with batch norm and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.drop(torch.relu(self.norm(self.first(x)))))
        return out


class Pictures(nn.Module):
    """Takes (n, 1, 6, 6), gives (n, 3)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.conv(x).flatten(1))
        return out


def batch(size: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs (size, 6) and labels (size,), drawn at random."""
    return torch.randn(size, FEATURES), torch.randint(0, CLASSES, (size,))


def loss_of(model: nn.Module, size: int = 5) -> torch.Tensor:
    """The loss of a random batch."""
    x, y = batch(size)
    return F.cross_entropy(model(x), y)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 3) -> list[torch.Tensor]:
    """The losses of a few steps."""
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def state_of(*models: nn.Module) -> list[torch.Tensor]:
    """Copies of all parameters and buffers."""
    return [tensor.detach().clone() for model in models for tensor in (*model.parameters(), *model.buffers())]
