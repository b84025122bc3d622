"""What the programs have in common: how a model is traced where the test asks for it, and what they tell."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

import proxy_wrapper.proxy as Proxy

if TYPE_CHECKING:
    from collections.abc import Mapping

LEVEL = os.environ.get("LEVEL")
torch.set_num_threads(1)
sys.setswitchinterval(1e-6)


def traced(net: Any, name: str) -> Any:
    """`net`, proxied if the run is traced."""
    if LEVEL is None:
        return net
    return Proxy.Proxy(net, recurse=True, name=name, logdir=os.environ["LOGDIR"], log_level=LEVEL)


def untraced(net: nn.Module) -> None:
    """Take `net` out of the trace."""
    if LEVEL is not None:
        Proxy.unproxy(net)


def start(net: nn.Module, generator: torch.Generator) -> None:
    """Give all parameters values that no other thread has a say in."""
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)


def train(net: Any, optimizer: Any, generator: torch.Generator, steps: int, step: Any = None) -> None:
    """Make so many steps on batches of four."""
    for _ in range(steps):
        loss = net(torch.randn(4, 8, generator=generator)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        (step or optimizer.step)()


def digest(*modules: nn.Module) -> str:
    """What the values of all state are, to the bit."""
    values = (value for module in modules for value in module.state_dict().values())
    return hashlib.sha256(b"".join(value.numpy().tobytes() for value in values)).hexdigest()[:16]


def counted() -> list[Any]:
    """What Dynamo has counted: graphs, frames, breaks."""
    counters = sys.modules["torch._dynamo.utils"].counters
    return [dict(counters["stats"]), dict(counters["frames"]), sum(counters["graph_break"].values())]


def tell(truth: Mapping[str, int]) -> None:
    """Leave for the test what has been done."""
    Path(os.environ["TRUTH"]).write_text(json.dumps(truth))
