"""One thread compiles and trains models while another trains, without compiling anything.

Its argument says what is compiled: "model", "hooks" (a model that has a hook of its own, so that Dynamo guards that
there are no hooks on all modules), "step" (the optimizer's step, which it guards likewise), "breaks" (a graph break).
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import torch
from torch import nn

from tests.proxy_wrapper.thread_programs.tracing import counted, digest, start, tell, traced, train, untraced

KIND = sys.argv[1]
sys.setswitchinterval(1e-4)  # With less, to compile takes minutes.
FIRST = 10
stop = threading.Event()
graphs: list[str] = []
eager: dict[str, Any] = {}


class Breaking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
        self.last = nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.layers(x)
        torch._dynamo.graph_break()
        return self.last(x)


def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    graphs.append(str(graph.graph))
    return graph.forward


def train_eagerly() -> None:
    generator = torch.Generator().manual_seed(1)
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    start(net, generator)
    net = traced(net, "eager")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    steps = 0
    while steps < FIRST or not stop.is_set():
        train(net, optimizer, generator, 1)
        steps += 1
        if steps == FIRST:
            eager["digest"] = digest(net)
        untraced(traced(nn.Linear(2, 2), "other"))
        time.sleep(0.002)
    eager["steps"] = steps


def compile_and_train() -> list[str]:
    generator = torch.Generator().manual_seed(2)
    digests = []
    for _ in range(2):
        net = Breaking() if KIND == "breaks" else nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
        start(net, generator)
        net = traced(net, "compiled")
        if KIND == "hooks":
            net.get_submodule("0").register_forward_hook(lambda _, __, out: out * 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, foreach=False)
        compiled = torch.compile(net, backend=backend, fullgraph=KIND != "breaks")
        step = torch.compile(optimizer.step, backend=backend) if KIND == "step" else optimizer.step
        train(compiled, optimizer, generator, 4, step)
        digests.append(digest(net))
    return digests


beside = threading.Thread(target=train_eagerly)
beside.start()
try:
    digests = compile_and_train()
finally:
    stop.set()
    beside.join()
print(digests, eager["digest"], graphs, counted())
tell({"eager": eager["steps"]})
