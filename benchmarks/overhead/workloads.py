"""What there is to train, as far as one can say without torch; `tasks` builds it.

The driver never imports torch, whose memory the workers would inherit as their `ru_maxrss`.
"""

from __future__ import annotations

from typing import NamedTuple

STRICT_FROM_MS = 50.0
"""From this CPU time of a plain step on, the strict targets hold."""

TARGETS_FROM_MS = 5.0
"""Below this CPU time of a plain step there is no target for the ratio: there it is the cost per record that counts."""

STRICT_TARGETS = {"INFO": 1.03, "DEBUG": 1.10}
TARGETS = {"INFO": 1.15, "DEBUG": 1.40}

MEMORY_TARGET = 1.05
"""Bound on the peak memory, as ratio to plain, of INFO and DEBUG."""


class Workload(NamedTuple):
    """A training task: `title` says what it is, `steps_per_round` how many steps make a block of some 0.1 to 0.6 s."""

    title: str
    steps_per_round: int


WORKLOADS = {
    "mnist": Workload("MNIST convolutional network, batch 64, Adadelta", 5),
    "mnist-batch1": Workload("the same, batch 1", 20),
    "transformer": Workload(
        "decoder-only transformer of 4 layers (own attention on F.scaled_dot_product_attention), "
        "width 128, 4 heads, 64 tokens, batch 16, AdamW",
        5,
    ),
    "transformer-small": Workload("the same with 2 layers, width 64, 32 tokens, batch 4", 30),
    "transformer-12": Workload("the same with 12 layers, width 256, 8 heads, 64 tokens, batch 4", 2),
    "resnet18": Workload("ResNet-18, 64x64 pixels, batch 8, SGD with momentum", 2),
    "lstm": Workload("LSTM language model of 2 layers, width 256, 32 tokens, batch 16, clipped gradients, SGD", 3),
}

CHAINS = {
    "modules": Workload("a chain of small linear layers; the size is their number", 1),
    "tensors": Workload("one module with parameters of 16 elements; the size is their number", 1),
    "elements": Workload("one module with one parameter; the size is its number of elements, in thousands", 1),
    "calls": Workload("a chain of nn.Identity, no parameters but one; the size is their number", 1),
    "operations": Workload("one module that adds 1 to a tensor of 4; the size is how often", 1),
}
"""Workloads that do next to nothing, of a given size: "modules:1000"."""


def target_of(level: str, plain_ms: float) -> float | None:
    """The bound on the ratio of CPU times at `level`, where a plain step takes `plain_ms` of CPU time."""
    if plain_ms < TARGETS_FROM_MS:
        return None
    return (STRICT_TARGETS if plain_ms >= STRICT_FROM_MS else TARGETS).get(level)


def describe(name: str) -> Workload:
    """The workload called `name`.

    Raises:
        KeyError: if there is none.
    """
    kind, _, size = name.partition(":")
    return CHAINS[kind] if size else WORKLOADS[name]
