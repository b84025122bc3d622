"""A sweep: each thread of a pool makes, compiles and trains a model of its own."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

from tests.proxy_wrapper.thread_programs.tracing import counted, digest, start, tell, traced, train

MODELS, STEPS = 4, 4
sys.setswitchinterval(1e-4)  # With less, to compile takes minutes.


def work(seed: int) -> str:
    generator = torch.Generator().manual_seed(seed)
    net = nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)])
    start(net, generator)
    net = traced(net, "net")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    train(torch.compile(net, backend="aot_eager", fullgraph=True), optimizer, generator, STEPS)
    return digest(net)


with ThreadPoolExecutor(3) as pool:
    print(list(pool.map(work, range(MODELS))))
print(counted()[0]["unique_graphs"] <= 3, counted()[2])  # A graph for each thread that comes before the first is done.
tell({"calls": MODELS * STEPS, "steps": MODELS * STEPS})
