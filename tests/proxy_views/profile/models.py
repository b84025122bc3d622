"""Small models that are profiled, and the probe of the seeds' checklists."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class CNN(nn.Module):
    """conv-bn-relu-pool-conv-functional pool-linear; `relu` is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc = nn.Linear(1024, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.relu(self.bn(self.conv1(x))))
        x = F.max_pool2d(self.relu(self.conv2(x)), 2)
        found: torch.Tensor = self.fc(torch.flatten(x, 1))
        return found


class Twice(nn.Module):
    """`a` is called twice, `unused` never; `scale` is a parameter of the model itself."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.unused = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.a(self.b(self.a(x)) * self.scale)
        return found


class Checkpointed(nn.Module):
    """Its second layer is recomputed, with operations around it that belong to the model itself."""

    def __init__(self, *, reentrant: bool) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def again(hidden: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = (self.second(hidden.sin()) @ hidden.T).cos()
            return found

        found: torch.Tensor = checkpoint(again, self.first(x), use_reentrant=self.reentrant)
        return found


def pictures() -> torch.Tensor:
    """Two for `CNN`."""
    return torch.randn(2, 3, 32, 32)
