"""A dataclass whose field makes the model, and a table that makes a head for each task when it is first asked for."""

from collections import defaultdict
from dataclasses import dataclass, field

import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, width), nn.Linear(width, 3)])
        self.norm = nn.BatchNorm1d(width)
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        return self.layers[1](self.drop(self.norm(self.layers[0](x)).relu()))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(3, 1)

    def forward(self, x):
        return self.out(x)


@dataclass
class Trainer:
    lr: float = 0.1
    encoder: nn.Module = field(default_factory=Encoder)

    def fit(self, heads, steps):
        for step in range(steps):
            head = heads["odd" if step % 2 else "even"]
            optimizer = torch.optim.SGD([*self.encoder.parameters(), *head.parameters()], self.lr, momentum=0.9)
            optimizer.zero_grad()
            loss = head(self.encoder(torch.randn(8, 4))).pow(2).mean()
            loss.backward()
            optimizer.step()
            print(loss.item())


heads = defaultdict(Head)
trainer = Trainer()
trainer.fit(heads, 6)
models = [trainer.encoder, *heads.values()]
