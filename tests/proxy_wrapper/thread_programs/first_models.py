"""The first models of a program are made, and trained, in several threads at once."""

from __future__ import annotations

import threading

import torch
from torch import nn

from tests.proxy_wrapper.thread_programs.tracing import digest, start, tell, traced, train

THREADS, STEPS = 6, 5
together = threading.Barrier(THREADS)
results = [""] * THREADS


def work(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    start(net, generator)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    together.wait()
    net = traced(net, "net")
    train(net, optimizer, generator, STEPS)
    results[seed] = digest(net)


threads = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(results)
hooks = nn.modules.module
tell({"calls": THREADS * STEPS, "steps": THREADS * STEPS, "hooks": len(hooks._global_forward_hooks)})
