"""Small training programs that run on any device, and give back all that is to be the same."""

from __future__ import annotations

import io
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

import torch
import torch.nn.functional as F
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    Program = Callable[[nn.Module, Batch], list[torch.Tensor]]

STEPS: Final = 3


class Mixed(nn.Module):
    """(n, 1, 8, 8) and (n,) int64 -> (n, 3): layers of several kinds, buffers of floats and of integers."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10, 8)
        self.conv = nn.Conv2d(1, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.out = nn.Linear(4 * 6 * 6 + 8, 3)
        self.norm = nn.LayerNorm(3)
        self.attention = nn.MultiheadAttention(3, 1)

    def forward(self, image: torch.Tensor, word: torch.Tensor) -> torch.Tensor:
        seen = F.relu(self.bn(self.conv(image))).flatten(1)
        out: torch.Tensor = self.norm(self.out(torch.cat([seen, self.words(word)], 1)))
        attended: torch.Tensor = self.attention(out, out, out)[0]  # Fused attention is each device's own.
        return attended


def make(device: str) -> Mixed:
    """The model, with the same weights each time, and on each device of tensors that have never been written to."""
    torch.manual_seed(0)
    model = Mixed()
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(parameter.detach().clone().to(device)))
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, buffer.clone().to(device))
    return model


def batch(device: str) -> Batch:
    """Images (5, 1, 8, 8), words (5,), labels (5,): the same each time."""
    draw = torch.Generator().manual_seed(3)
    image = torch.randn(5, 1, 8, 8, generator=draw)
    word = torch.randint(0, 10, (5,), generator=draw)
    label = torch.randint(0, 3, (5,), generator=draw)
    return image.to(device), word.to(device), label.to(device)


def bytes_of(tensors: Iterable[torch.Tensor]) -> list[tuple[torch.dtype, tuple[int, ...], bytes]]:
    """What is compared of tensors, wherever they are: two NaNs are the same if their bits are. Waits for the device."""
    hosted = [tensor.detach().cpu().contiguous() for tensor in tensors]
    return [
        (each.dtype, tuple(each.shape), each.reshape(-1).view(torch.uint8).numpy().tobytes() if each.numel() else b"")
        for each in hosted
    ]


def run(
    name: str,
    device: str,
    trace: Callable[[nn.Module], object] = lambda model: None,
    while_training: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Outcome:
    """Run a program, on a model that `trace` was given first."""
    model, given = make(device), batch(device)
    trace(model)
    with while_training():
        losses = PROGRAMS[name](model, given)
    return Outcome(losses, model)


class Outcome:
    """What a program has left on the device."""

    def __init__(self, losses: list[torch.Tensor], model: nn.Module) -> None:
        self._tensors = [*losses, *model.parameters(), *model.buffers()]

    def bytes(self) -> list[tuple[torch.dtype, tuple[int, ...], bytes]]:
        """Everything in it; waits for the device."""
        return bytes_of(self._tensors)


def _train(
    model: nn.Module,
    given: Batch,
    optimizer: torch.optim.Optimizer,
    *,
    clips: bool = False,
    autocast: torch.dtype | None = None,
    scaler: torch.amp.GradScaler | None = None,
    unscales: bool = True,
) -> list[torch.Tensor]:
    """The losses, on the device."""
    image, word, label = given
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast(image.device.type, dtype=autocast, enabled=autocast is not None):
            loss = F.cross_entropy(model(image, word), label)
        if scaler is None:
            loss.backward()
        else:
            scaler.scale(loss).backward()
            if unscales:
                scaler.unscale_(optimizer)
        if clips:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        losses.append(loss.detach())
    return losses


def with_adam(model: nn.Module, given: Batch) -> list[torch.Tensor]:
    return _train(model, given, torch.optim.Adam(model.parameters()))


def with_momentum(model: nn.Module, given: Batch) -> list[torch.Tensor]:
    return _train(model, given, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False))


def fused(model: nn.Module, given: Batch) -> list[torch.Tensor]:
    return _train(model, given, torch.optim.AdamW(model.parameters(), fused=True))


def clipped(model: nn.Module, given: Batch) -> list[torch.Tensor]:
    return _train(model, given, torch.optim.AdamW(model.parameters()), clips=True)


def in_mixed_precision(model: nn.Module, given: Batch) -> list[torch.Tensor]:
    return _train(model, given, torch.optim.SGD(model.parameters(), lr=0.1), autocast=torch.bfloat16)


def with_scaled_losses(model: nn.Module, given: Batch) -> list[torch.Tensor]:
    """Waits for the device in each step, as `GradScaler` does to know whether there is an infinity."""
    scaler = torch.amp.GradScaler(given[0].device.type, init_scale=128.0)
    return _train(model, given, torch.optim.SGD(model.parameters(), lr=0.1), scaler=scaler, clips=True)


def with_scaled_gradients_clipped(model: nn.Module, given: Batch) -> list[torch.Tensor]:
    """Clips gradients that are still scaled, and waits likewise."""
    scaler = torch.amp.GradScaler(given[0].device.type, init_scale=1024.0)
    return _train(model, given, torch.optim.SGD(model.parameters(), lr=0.1), scaler=scaler, clips=True, unscales=False)


def by_hand(model: nn.Module, given: Batch) -> list[torch.Tensor]:
    """Without an optimizer."""
    image, word, label = given
    losses = []
    for _ in range(2 * STEPS):
        model.zero_grad()
        loss = F.cross_entropy(model(image, word), label)
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                assert parameter.grad is not None
                parameter.sub_(parameter.grad, alpha=0.1)
        losses.append(loss.detach())
    return losses


def around_versions(model: nn.Module, given: Batch) -> list[torch.Tensor]:
    """Without an optimizer, and so that no version count tells."""
    image, word, label = given
    losses = []
    for _ in range(2 * STEPS):
        model.zero_grad()
        loss = F.cross_entropy(model(image, word), label)
        loss.backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.data.sub_(parameter.grad, alpha=0.1)
        losses.append(loss.detach())
    return losses


def accumulating(model: nn.Module, given: Batch) -> list[torch.Tensor]:
    """Several backward passes, and calls of the model, to a step: the first of them before any optimizer is seen."""
    image, word, label = given
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(STEPS):
        for _ in range(3):
            loss = F.cross_entropy(model(image, word), label)
            loss.backward()
            losses.append(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    return losses


def never_cleared(model: nn.Module, given: Batch) -> list[torch.Tensor]:
    """The gradients of all steps add up."""
    return _several_steps(model, given, lambda optimizer: None)


def cleared_in_place(model: nn.Module, given: Batch) -> list[torch.Tensor]:
    """The gradients stay where they are, and become zero."""
    return _several_steps(model, given, lambda optimizer: optimizer.zero_grad(set_to_none=False))


def _several_steps(
    model: nn.Module, given: Batch, clear: Callable[[torch.optim.Optimizer], None]
) -> list[torch.Tensor]:
    image, word, label = given
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(STEPS):
        clear(optimizer)
        loss = F.cross_entropy(model(image, word), label)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def with_checkpoints(model: nn.Module, given: Batch) -> list[torch.Tensor]:
    """Saves in the middle, and goes on from what was saved."""
    losses = with_adam(model, given)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    with_momentum(model, given)
    model.load_state_dict(torch.load(file))
    return losses + with_adam(model.eval(), given)


def into_infinity(model: nn.Module, given: Batch) -> list[torch.Tensor]:
    """The learning rate is so large that the weights overflow."""
    return _train(model, given, torch.optim.SGD(model.parameters(), lr=1e38))


PROGRAMS: Final[dict[str, Program]] = {
    program.__name__: program
    for program in (
        *(with_adam, with_momentum, fused, clipped, in_mixed_precision, with_scaled_losses),
        *(with_scaled_gradients_clipped, by_hand),
        *(around_versions, accumulating, never_cleared, cleared_in_place, with_checkpoints, into_infinity),
    )
}

WAITING: Final = frozenset({"with_scaled_losses", "with_scaled_gradients_clipped", "with_checkpoints"})
"""The programs that wait for the device while they train."""
