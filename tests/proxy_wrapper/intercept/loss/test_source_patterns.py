"""The source of a training program is read at its first backward pass, or its first step without one."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING, Any

import pytest
import torch

from proxy_trace.checks import views
from tests.proxy_trace.checks.judged import find

if TYPE_CHECKING:
    from pathlib import Path

BACKWARD = "model(x).sum().backward()"
SCRIPT = """
import torch
from torch import nn
import proxy_wrapper.proxy as Proxy

def channels_first(image):
    h, w, c = image.shape
    return image.{}

def main(logdir):
    model = Proxy.Proxy(nn.Conv2d(3, 2, 3), name="model", logdir=logdir, log_level=Proxy.INFO)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        x = channels_first(torch.ones(4, 5, 3))[None]
        {}
    Proxy.unproxy(model)

main(LOGDIR)
"""


def trained(view: str, tmp_path: Path, step: str = BACKWARD) -> list[tuple[str, str]]:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.format(view, step), encoding="utf-8")
    logdir = tmp_path / "trace"
    runpy.run_path(str(script), {"LOGDIR": logdir})
    return [(each.code, each.place.rpartition(":")[2]) for each in find(logdir, views.CHECK)]


def test_a_pattern_is_reported_once_with_its_line(tmp_path: Path) -> None:
    assert trained("view(c, h, w)", tmp_path) == [("view-instead-of-permute", "8")]


GRADIENTS = """gradients = torch.autograd.grad(model(x).sum(), list(model.parameters()))
        for parameter, gradient in zip(model.parameters(), gradients):
            """


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(GRADIENTS + "parameter.grad = gradient\n        optimizer.step()", id="assigned gradients"),
        pytest.param(GRADIENTS + "parameter.data -= 0.1 * gradient", id="by hand"),
    ],
)
def test_a_program_without_backward_is_read_too(step: str, tmp_path: Path) -> None:
    assert trained("view(c, h, w)", tmp_path, step) == [("view-instead-of-permute", "8")]


def test_gradients_that_train_nothing_are_no_training(tmp_path: Path) -> None:
    assert trained("view(c, h, w)", tmp_path, GRADIENTS + "pass") == []


def test_right_code_is_not(tmp_path: Path) -> None:
    assert trained("permute(2, 0, 1)", tmp_path) == []


MISTAKEN = """
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
import proxy_wrapper.proxy as Proxy

class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 2 * x

    @staticmethod
    def backward(ctx, upstream):
        (x,) = ctx.saved_tensors
        return torch.full_like(x, 2)

class Changes(Dataset):
    def __init__(self):
        self.before = torch.randint(256, (24, 4), dtype=torch.uint8)
        self.after = torch.randint(256, (24, 4), dtype=torch.uint8)

    def __len__(self):
        return 24

    def __getitem__(self, index):
        return (self.after[index] - self.before[index]) / 255, torch.full((2,), -1.0)

def main(logdir):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Dropout(), nn.Linear(6, 2), nn.ReLU())
    if logdir is not None:
        model = Proxy.Proxy(model, name="model", logdir=logdir, log_level=LEVEL, recurse=True)
    groups = [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters()}]
    optimizer = torch.optim.Adam(groups, lr=0.01, betas=(0.999, 0.9))
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    losses = []
    for x, y in DataLoader(Changes(), batch_size=6, shuffle=True):
        out = model(x)
        anchor, neg, pos = Doubling.apply(out).chunk(3)
        loss = F.mse_loss(out, y) + F.triplet_margin_loss(anchor, neg, pos) + 0.1 * out.norm().item()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        optimizer.zero_grad()
    state = [*losses, *model.state_dict().values(), torch.get_rng_state()]
    if logdir is not None:
        Proxy.unproxy(model)
    return state

STATE = main(LOGDIR)
"""


def test_a_program_with_many_mistakes_trains_as_before(level: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(MISTAKEN, encoding="utf-8")

    def state(logdir: Path | None) -> list[Any]:
        found: list[Any] = runpy.run_path(str(script), {"LOGDIR": logdir, "LEVEL": level})["STATE"]
        return found

    plain, traced = state(None), state(tmp_path / "trace")
    assert len(plain) == len(traced)
    assert all(torch.equal(one, other) for one, other in zip(plain, traced, strict=True))
    expected = {"arguments-swapped", "backward-ignores-gradient", "byte-difference-wraps", "targets-out-of-range"}
    expected |= {"loss-term-cut-off", "group-rates-overwritten", "betas-swapped"}
    assert expected <= {each.code for each in find(tmp_path / "trace")}
