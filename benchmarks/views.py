"""Measures what a block of `Proxy.trace` costs, and a graph, beside other ways to have one.

Process CPU time, one thread. In each row, blocks of plain and of observed calls take turns in one process, and the
median of the ratios of neighbouring blocks counts, so that a machine that others use too disturbs both alike. `plain`
is measured against itself: how far it is from 1 is what the machine adds.

    python benchmarks/views.py
    python benchmarks/views.py --peers      # beside torchlens, nnsight, make_fx, torch.export, torch.fx

The networks are a ResNet-18 (1x3x128x128), a transformer of two blocks, a GPT-2 of two (where transformers is
installed) and a small convolutional network.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import re
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "runtime"))
sys.path.insert(1, str(Path(__file__).parents[1]))

import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

import proxy_wrapper.proxy as Proxy
from overhead.tables import titled_table
from proxy_views import Scale, bend
from tests.oracles import torchvision_models

if TYPE_CHECKING:
    from collections.abc import Callable

TARGETS: Final = {"resnet18": 1.5, "transformer": 3.5, "gpt2": 3.5}
"""How many times a plain forward pass the block may take."""

TARGET_BEND: Final = {"resnet18": 1.3}
"""How many times a plain forward pass one with a bent layer may take."""

TARGET_MS_PER_NODE: Final = 0.1


class Basic(nn.Module):
    """Two convolutions with a skip connection, as in ResNet-18."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The output: (N, outputs, H / stride, W / stride)."""
        around = x if self.downsample is None else self.downsample(x)
        y: torch.Tensor = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += around
        out: torch.Tensor = self.relu(y)
        return out


def resnet18() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    layers.append(nn.MaxPool2d(3, 2, 1))
    inputs = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Basic(inputs, outputs, stride), Basic(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Attends(nn.Module):
    """A block of a transformer, of width 64 with four heads."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The output, of the shape of the input: (B, T, width)."""
        batch, length, width = x.shape
        q, k, v = (each.view(batch, length, 4, -1).transpose(1, 2) for each in self.qkv(self.ln1(x)).chunk(3, -1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.proj(attended)
        out: torch.Tensor = x + self.mlp(self.ln2(x))
        return out


def transformer() -> nn.Module:
    return nn.Sequential(nn.Embedding(100, 64), Attends(), Attends(), nn.LayerNorm(64), nn.Linear(64, 100))


def small_cnn() -> nn.Module:
    convs = [nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU()]
    return nn.Sequential(*convs, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


def gpt2() -> nn.Module:
    if importlib.util.find_spec("torchvision") is not None:
        torchvision_models.load()  # transformers imports it, whether its compiled part loads or not.
    import transformers

    config = transformers.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=100, bos_token_id=1, eos_token_id=2)
    model: nn.Module = transformers.GPT2LMHeadModel(config)
    return model


class Network(NamedTuple):
    """A network and what it is called with."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], torch.Tensor]


NETWORKS: Final = {
    "resnet18": Network(resnet18, lambda: torch.randn(1, 3, 128, 128)),
    "transformer": Network(transformer, lambda: torch.randint(0, 100, (2, 32))),
    "gpt2": Network(gpt2, lambda: torch.randint(0, 100, (2, 32))),
    "small-cnn": Network(small_cnn, lambda: torch.randn(2, 3, 32, 32)),
}


def in_a_block(model: nn.Module, x: torch.Tensor) -> None:
    with Proxy.trace(model):
        model(x)


def block_and_graph(model: nn.Module, x: torch.Tensor) -> None:
    with Proxy.trace(model) as trace:
        model(x)
    trace.graph()


def bent_ratio(model: nn.Module, plain: Callable[[], Any], rounds: int, calls: int) -> float:
    """What a call costs with a layer in the middle bent; that is done for each block, and taken back after it."""
    layers = [name for name, module in model.named_modules() if not list(module.children())]
    target = re.escape(layers[len(layers) // 2])
    found = []
    for _ in range(rounds):
        before = cpu_seconds(plain, calls)
        with bend(model, target, Scale(2.0), kind="module"):
            plain()
            found.append(cpu_seconds(plain, calls) / before)
    return statistics.median(found)


def with_torchlens(model: nn.Module, x: torch.Tensor) -> None:
    torchlens = importlib.import_module("torchlens")
    torchlens.trace(model, x)


def with_nnsight(model: nn.Module, x: torch.Tensor) -> None:
    nnsight = importlib.import_module("nnsight")
    wrapped = nnsight.NNsight(model)
    with wrapped.trace(x) as tracer:
        tracer.cache()


PEERS: Final[dict[str, Callable[[nn.Module, torch.Tensor], Any]]] = {
    "torch.fx.symbolic_trace": lambda model, _: torch.fx.symbolic_trace(model),
    "make_fx": lambda model, x: make_fx(model)(x),
    "torch.export": lambda model, x: torch.export.export(model, (x,)),
    "torchlens": with_torchlens,
    "nnsight, all modules": with_nnsight,
}


def cpu_seconds(call: Callable[[], Any], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        call()
    return time.process_time() - began


def ratio(plain: Callable[[], Any], observed: Callable[[], Any], rounds: int, calls: int) -> float:
    """The median over the rounds of the CPU time of a block of observed calls, over that of the plain one before it."""
    observed()
    gc.collect()
    found = []
    for _ in range(rounds):
        before = cpu_seconds(plain, calls)
        found.append(cpu_seconds(observed, calls) / before)
    return statistics.median(found)


def measure(name: str, rounds: int) -> tuple[list[str], bool]:
    """The row of a network, and whether it meets the targets."""
    torch.manual_seed(0)
    network = NETWORKS[name]
    model, x = network.make().eval(), network.inputs()

    def plain() -> Any:
        return model(x)

    with torch.no_grad():
        plain()
        once = cpu_seconds(plain, 5) / 5
        calls = max(5, int(0.05 / once))
        control = ratio(plain, plain, rounds, calls)
        block = ratio(plain, lambda: in_a_block(model, x), rounds, calls)
        bent = bent_ratio(model, plain, rounds, calls)
        after = ratio(plain, plain, rounds, calls)
        with Proxy.trace(model) as trace:
            model(x)
        nodes = len(trace.graph().graph.nodes)
        per_node = min(cpu_seconds(trace.graph, 1) for _ in range(max(3, rounds // 2))) / nodes * 1e3
        row = [name, f"{once * 1e3:.2f}", f"{control:.2f}", f"{block:.2f}", f"{TARGETS.get(name, 0) or ''}"]
        row += [f"{bent:.2f}", f"{TARGET_BEND.get(name, 0) or ''}", f"{after:.2f}", str(nodes), f"{per_node:.3f}"]
    is_kept = block <= TARGETS.get(name, float("inf")) and bent <= TARGET_BEND.get(name, float("inf"))
    return row, is_kept and per_node <= TARGET_MS_PER_NODE


def peers_of(name: str) -> list[str]:
    """What other tools take for a network, in columns as `PEERS` has them; to be measured after all blocks of ours.

    Some replace functions of torch for the rest of the process, which makes each call dearer.
    """
    torch.manual_seed(0)
    model, x = NETWORKS[name].make().eval(), NETWORKS[name].inputs()
    with torch.no_grad():
        return [_peer(each, model, x, lambda: model(x)) for each in PEERS.values()]


def _peer(call: Callable[[nn.Module, torch.Tensor], Any], model: nn.Module, x: torch.Tensor, plain: Any) -> str:
    try:
        return f"{ratio(plain, lambda: call(model, x), 3, 2):.1f}"
    except ImportError:
        return "not installed"
    except Exception as error:  # noqa: BLE001  Several refuse some of the networks.
        return type(error).__name__


def main() -> int:
    """Run the benchmark; the exit code is 1 if a target is missed."""
    parser = argparse.ArgumentParser(description="what do a block of Proxy.trace and a graph cost?")
    parser.add_argument("--rounds", type=int, default=21, help="pairs of blocks for each figure (default: 21)")
    parser.add_argument("--network", choices=NETWORKS, action="append", help="only these networks")
    parser.add_argument("--peers", action="store_true", help="beside other tools")
    parser.add_argument("--format", choices=("text", "markdown"), default="text", help="of the table")
    options = parser.parse_args()
    torch.set_num_threads(1)
    wanted = options.network or list(NETWORKS)
    headings = ["network", "plain, ms", "plain/plain", "block/plain", "target", "bent/plain", "target", "after"]
    headings += ["nodes", "graph(), ms a node"]
    rows, keeps = [], True
    for name in wanted:
        try:
            row, is_kept = measure(name, options.rounds)
        except ImportError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        rows.append(row)
        keeps &= is_kept
    if options.peers:
        rows = [row + peers_of(row[0]) for row in rows]
    note = f"CPU time; medians of {options.rounds} pairs of blocks that take turns, one thread"
    print(titled_table("views of live calls", note, [headings + list(PEERS) * options.peers, *rows], options.format))
    return 0 if keeps else 1


if __name__ == "__main__":
    sys.exit(main())
