"""Trains a small convolutional network on MNIST, or on generated digits that need no download.

The real thing: python mnist.py --data torchvision --epochs 14 --train-samples 60000 --test-samples 10000
"""

import argparse
from collections.abc import Callable
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset, Subset

Sample = tuple[torch.Tensor, Any]

MEAN, STD = 0.1307, 0.3081

# The digits in the 5x7 dot font of old terminals, one row of dots after the other.
FONT = [
    "01110 10001 10011 10101 11001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00110 01000 10000 11111",
    "01110 10001 00001 00110 00001 10001 01110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00010 01100",
]


class Normalize:
    def __init__(self, mean: float, std: float) -> None:
        self.mean, self.std = mean, std

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return (image - self.mean) / self.std


class SyntheticDigits(Dataset[Sample]):
    """Images like MNIST's: one digit in 1x28x28, moved, dimmed and with noise. The seed decides all of it."""

    def __init__(self, samples: int, seed: int, transform: Callable[[torch.Tensor], torch.Tensor]) -> None:
        generator = torch.Generator().manual_seed(seed)
        dots = torch.tensor([[int(dot) for dot in rows.replace(" ", "")] for rows in FONT])
        glyphs = dots.view(10, 1, 7, 5).float()
        glyphs = F.interpolate(glyphs, size=(21, 15), mode="bilinear")
        self.targets = torch.randint(10, (samples,), generator=generator)
        self.images = torch.zeros(samples, 1, 28, 28)
        tops = torch.randint(2, 6, (samples,), generator=generator).tolist()
        lefts = torch.randint(3, 11, (samples,), generator=generator).tolist()
        for i, (digit, top, left) in enumerate(zip(self.targets.tolist(), tops, lefts, strict=True)):
            self.images[i, :, top : top + 21, left : left + 15] = glyphs[digit]
        self.images *= 0.6 + 0.4 * torch.rand(samples, 1, 1, 1, generator=generator)
        self.images += 0.1 * torch.rand(self.images.shape, generator=generator)
        self.images.clamp_(0, 1)
        self.transform = transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Sample:
        return self.transform(self.images[index]), int(self.targets[index])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.conv1(x))  # (B, 32, 26, 26)
        x = F.relu(self.conv2(x))  # (B, 64, 24, 24)
        x = self.dropout1(F.max_pool2d(x, 2))  # (B, 64, 12, 12)
        x = torch.flatten(x, 1)
        x = self.dropout2(F.relu(self.fc1(x)))
        return F.log_softmax(self.fc2(x), dim=1)


def train(
    args: argparse.Namespace,
    model: nn.Module,
    device: torch.device,
    train_loader: DataLoader[Sample],
    optimizer: optim.Optimizer,
    epoch: int,
) -> None:
    model.train()
    seen = 0
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            percent = 100.0 * batch_idx / len(train_loader)
            progress = f"{seen}/{args.train_samples} ({percent:.0f}%)"
            print(f"Train Epoch: {epoch} [{progress}]\tLoss: {loss.item():.6f}")
            if args.dry_run:
                break
        seen += len(data)


def test(
    args: argparse.Namespace,
    model: nn.Module,
    device: torch.device,
    test_loader: DataLoader[Sample],
) -> None:
    model.eval()
    test_loss = 0.0
    correct = 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += int(pred.eq(target.view_as(pred)).sum().item())

    total = args.test_samples
    print(
        f"\nTest set: Average loss: {test_loss / total:.4f}, "
        f"Accuracy: {correct}/{total} ({100.0 * correct / total:.0f}%)\n"
    )


def load_data(args: argparse.Namespace) -> tuple[Dataset[Sample], Dataset[Sample]]:
    if args.data == "synthetic":
        normalize = Normalize(MEAN, STD)
        train_set = SyntheticDigits(args.train_samples, seed=1, transform=normalize)
        test_set = SyntheticDigits(args.test_samples, seed=2, transform=normalize)
        return train_set, test_set
    try:
        from torchvision import datasets, transforms
    except ImportError:
        raise SystemExit(
            "--data torchvision needs torchvision, which is not installed: "
            "`pip install torchvision`, or leave the option out to train on generated digits."
        ) from None
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((MEAN,), (STD,))])
    full_train = datasets.MNIST(args.data_dir, train=True, download=True, transform=transform)
    full_test = datasets.MNIST(args.data_dir, train=False, download=True, transform=transform)
    args.train_samples = min(args.train_samples, len(full_train))
    args.test_samples = min(args.test_samples, len(full_test))
    return Subset(full_train, range(args.train_samples)), Subset(full_test, range(args.test_samples))


def main() -> None:
    parser = argparse.ArgumentParser(description="MNIST with a small convolutional network")
    parser.add_argument("--batch-size", type=int, default=64, help="samples per step (default: 64)")
    parser.add_argument("--test-batch-size", type=int, default=256, help="in testing (default: 256)")
    parser.add_argument("--epochs", type=int, default=2, help="epochs to train (default: 2)")
    parser.add_argument("--lr", type=float, default=1.0, help="learning rate (default: 1.0)")
    parser.add_argument("--gamma", type=float, default=0.7, help="its factor per epoch (default: 0.7)")
    parser.add_argument("--no-accel", action="store_true", help="stay on the CPU")
    parser.add_argument("--device", help="train on this device, such as cpu or cuda:1")
    parser.add_argument("--dry-run", action="store_true", help="one training step per epoch")
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: 1)")
    parser.add_argument("--log-interval", type=int, default=10, help="batches per line (default: 10)")
    parser.add_argument("--save-model", action="store_true", help="save the trained weights")
    parser.add_argument("--save-path", default="mnist_cnn.pt", help="where to (default: mnist_cnn.pt)")
    parser.add_argument("--data", choices=["synthetic", "torchvision"], default="synthetic")
    parser.add_argument("--data-dir", default="data", help="where torchvision keeps MNIST (default: data)")
    parser.add_argument("--train-samples", type=int, default=2048, help="training images (default: 2048)")
    parser.add_argument("--test-samples", type=int, default=512, help="test images (default: 512)")
    args = parser.parse_args()

    torch.manual_seed(args.seed)

    if args.device:
        device = torch.device(args.device)
    elif not args.no_accel and torch.accelerator.is_available():
        device = torch.accelerator.current_accelerator() or torch.device("cpu")
    else:
        device = torch.device("cpu")

    train_set, test_set = load_data(args)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=args.test_batch_size)

    model = Net().to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)

    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    for epoch in range(1, args.epochs + 1):
        train(args, model, device, train_loader, optimizer, epoch)
        test(args, model, device, test_loader)
        scheduler.step()

    if args.save_model:
        torch.save(model.state_dict(), args.save_path)


if __name__ == "__main__":
    main()
