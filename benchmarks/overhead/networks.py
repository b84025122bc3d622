"""The networks that are trained: written here, since a benchmark should need nothing but torch."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import nn


class MnistNet(nn.Module):
    """The convolutional network of PyTorch's MNIST example, 1.2 million parameters: (B, 1, 28, 28) to (B, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, 1)
        self.conv2 = nn.Conv2d(32, 64, 3, 1)
        self.dropout1 = nn.Dropout(0.25)
        self.dropout2 = nn.Dropout(0.5)
        self.fc1 = nn.Linear(9216, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Log-probabilities of the classes."""
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = torch.flatten(self.dropout1(F.max_pool2d(x, 2)), 1)
        return F.log_softmax(self.fc2(self.dropout2(F.relu(self.fc1(x)))), dim=1)


class Attention(nn.Module):
    """Causal self-attention: (B, T, width) to the same."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Each position's mixture of itself and those before it."""
        batch_size, length, width = x.shape
        qkv = self.qkv(x).view(batch_size, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (B, heads, T, width / heads) each
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: torch.Tensor = self.out(y.transpose(1, 2).reshape(batch_size, length, width))
        return out


class Block(nn.Module):
    """A layer of a transformer, normalising first: (B, T, width) to the same."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention, then the same network at each position, each added to what comes in."""
        x = x + self.attention(self.norm1(x))
        out: torch.Tensor = x + self.mlp(self.norm2(x))
        return out


class Transformer(nn.Module):
    """A decoder-only language model: tokens (B, T) to logits (B, T, vocabulary)."""

    def __init__(self, layers: int, width: int, heads: int, length: int, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of each position's next token."""
        out: torch.Tensor = self.head(self.norm(self.blocks(self.tokens(x) + self.positions)))
        return out


class ResidualBlock(nn.Module):
    """Two convolutions and a shortcut: (B, C, H, W) to (B, C', H / stride, W / stride)."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The convolutions' result added to the shortcut's."""
        y = self.relu(self.bn1(self.conv1(x)))
        out: torch.Tensor = self.relu(self.bn2(self.conv2(y)) + self.shortcut(x))
        return out


class ResNet18(nn.Module):
    """He et al., "Deep Residual Learning for Image Recognition" (2015), table 1: (B, 3, H, W) to (B, classes)."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        )
        widths = (64, 64, 128, 256, 512)
        self.stages = nn.Sequential(
            *(
                nn.Sequential(ResidualBlock(before, after, 1 if before == after else 2), ResidualBlock(after, after, 1))
                for before, after in pairwise(widths)
            )
        )
        self.head = nn.Linear(512, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the classes."""
        out: torch.Tensor = self.head(self.stages(self.stem(x)).mean((2, 3)))
        return out


class LstmModel(nn.Module):
    """A recurrent language model: tokens (B, T) to logits (B, T, vocabulary)."""

    def __init__(self, layers: int, width: int, vocabulary: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.dropout = nn.Dropout(0.2)
        self.lstm = nn.LSTM(width, width, layers, dropout=0.2, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of each position's next token."""
        states, _ = self.lstm(self.dropout(self.tokens(x)))
        out: torch.Tensor = self.head(self.dropout(states))
        return out


class ParameterBag(nn.Module):
    """One module that multiplies its input, (4,), by the sums of all its parameters."""

    def __init__(self, tensors: int, elements: int) -> None:
        super().__init__()
        self.values = nn.ParameterList(nn.Parameter(torch.randn(elements)) for _ in range(tensors))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A small number times the input."""
        total = torch.stack([value.sum() for value in self.values]).sum()
        return x * (1e-6 * total)


class IdentityChain(nn.Module):
    """Calls `calls` modules that do nothing, and has one parameter, since an optimizer insists: (4,) to (4,)."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.chain = nn.Sequential(*(nn.Identity() for _ in range(calls)))
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The input, scaled."""
        out: torch.Tensor = self.chain(x * self.scale)
        return out


class Adder(nn.Module):
    """Adds 1 `operations` times without autograd, and has one parameter: (4,) to (4,)."""

    def __init__(self, operations: int) -> None:
        super().__init__()
        self.operations = operations
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The input plus the number of operations, scaled."""
        for _ in range(self.operations):
            x = x + 1
        return x * self.scale
