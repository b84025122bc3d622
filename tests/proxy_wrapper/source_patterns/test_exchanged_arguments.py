"""Arguments that are each named as the parameter of the other are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.exchanged_arguments import exchanged_arguments
from tests.proxy_wrapper.source_patterns.found import found_in_file

TRAIN = "def train(loader, epoch, mode, rate=1): pass\n"
NET = """
class Net(nn.Module):
    def __init__(self, inputs, hidden_size, num_layers): pass
    def draw(self, mu, logvar): pass
    def forward(self, x, mu, logvar): return {}
"""


@pytest.mark.parametrize(
    ("text", "line", "names"),
    [
        (TRAIN + "train(loader, args.mode, epoch)", 2, ("train", "mode", "epoch")),
        (TRAIN + "train(loader, MODE, EPOCH, rate=2)", 2, ("train", "mode", "epoch")),
        (NET.format(0) + "net = Net(16, num_layers, hidden_size)", 6, ("Net", "num_layers", "hidden_size")),
        (NET.format("self.draw(logvar, mu)"), 5, ("draw", "logvar", "mu")),
    ],
)
def test_exchanged_arguments_are_found(text: str, line: int, names: tuple[str, ...]) -> None:
    assert found_in_file(text, exchanged_arguments) == [(line, names)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(TRAIN + "train(loader, epoch, args.mode)", id="in their order"),
        pytest.param(TRAIN + "train(loader, mode=args.mode, epoch=epoch)", id="by keyword"),
        pytest.param(TRAIN + "train(*args.mode, epoch)", id="unpacked"),
        pytest.param(TRAIN + "train(loader, epoch, mode)\ntrain(loader, mode, epoch)", id="both ways"),
        pytest.param(TRAIN + "from utils import train\ntrain(loader, mode, epoch)", id="imported"),
        pytest.param(TRAIN + "def run(train): train(loader, mode, epoch)", id="a parameter"),
        pytest.param(TRAIN + TRAIN + "train(loader, mode, epoch)", id="defined twice"),
        pytest.param("@swapped\n" + TRAIN + "train(loader, mode, epoch)", id="decorated"),
        pytest.param("def train(epoch, mode):\n    train(mode, epoch)", id="recursive"),
        pytest.param(
            "def gcd(a, b): return gcd(b, a % b)\ndef same(x, y): pass\nsame(y, x)", id="names that say nothing"
        ),
        pytest.param("def resize(height, width): pass\nresize(width, height)", id="an image that is turned"),
        pytest.param("def mlp(input_dim, hidden_dim): pass\nmlp(hidden_dim, input_dim)", id="a decoder"),
        pytest.param("def loss(preds, targets): pass\nloss(targets, preds)", id="a symmetric loss"),
        pytest.param("def loss(student, teacher): pass\nloss(teacher, student)", id="two networks"),
        pytest.param("def move(src, dst): pass\nmove(dst, src)", id="both directions"),
        pytest.param("def warm(lr, warmup_lr): pass\nwarm(warmup_lr, lr)", id="a word in common"),
        pytest.param("def run(epoch, mode, seed): pass\nrun(mode, seed, epoch)", id="three at once"),
        pytest.param(NET.format("other.draw(logvar, mu)"), id="another object"),
        pytest.param(
            NET.format("self.draw(logvar, mu)") + "class Flow(Net):\n    def draw(self, logvar, mu): pass",
            id="overridden",
        ),
    ],
)
def test_other_calls(text: str) -> None:
    assert found_in_file(text, exchanged_arguments) == []
