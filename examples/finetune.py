"""Trains a small network on 3 classes, gives it a new head, and fine-tunes it on 10. A bug keeps it from learning them.

`instrument run finetune.py` and then `proxy-trace summary` name the bug and the line to change.
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

Batch = tuple[torch.Tensor, ...]


class Net(nn.Module):
    """Two convolutions and a linear head."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc = nn.Linear(16 * 4 * 4, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(images)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        scores: torch.Tensor = self.fc(x.flatten(1))
        return scores


def make_loader(classes: int, seed: int) -> DataLoader[Batch]:
    """256 noisy copies of one 16 x 16 image for each class, in batches of 32."""
    generator = torch.Generator().manual_seed(seed)
    originals = torch.randn(classes, 1, 16, 16, generator=generator)
    labels = torch.randint(classes, (256,), generator=generator)
    images = originals[labels] + 0.5 * torch.randn(256, 1, 16, 16, generator=generator)
    return DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True, generator=generator)


def train_epoch(model: nn.Module, loader: DataLoader[Batch], optimizer: torch.optim.Optimizer) -> str:
    """Train for one epoch; gives the mean loss and the accuracy as text."""
    losses, correct, seen = 0.0, 0, 0
    for images, labels in loader:
        optimizer.zero_grad()
        scores = model(images)
        loss = F.cross_entropy(scores, labels)
        loss.backward()
        optimizer.step()
        losses += loss.item() * len(labels)
        correct += int((scores.argmax(1) == labels).sum())
        seen += len(labels)
    return f"loss {losses / seen:.4f} accuracy {correct / seen:.3f}"


def main() -> None:
    """Pretrain, replace the head, and fine-tune."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8, help="epochs of fine-tuning (default: 8)")
    parser.add_argument("--save-path", help="where to save the weights (default: they are not saved)")
    args = parser.parse_args()
    torch.manual_seed(1)

    model = Net(classes=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    known_classes = make_loader(classes=3, seed=2)
    for epoch in range(1, 4):
        print(f"pretraining epoch {epoch}: {train_epoch(model, known_classes, optimizer)}")

    model.fc = nn.Linear(16 * 4 * 4, 10)
    for parameter in (*model.conv1.parameters(), *model.conv2.parameters()):
        parameter.requires_grad = False
    new_classes = make_loader(classes=10, seed=3)
    for epoch in range(1, args.epochs + 1):
        print(f"fine-tuning epoch {epoch}: {train_epoch(model, new_classes, optimizer)}")
    if args.save_path:
        torch.save(model.state_dict(), args.save_path)


if __name__ == "__main__":
    main()
