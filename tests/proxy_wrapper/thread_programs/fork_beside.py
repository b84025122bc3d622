"""Processes are forked while other threads proxy and train; each child trains a model of its own."""

from __future__ import annotations

import os
import threading
from typing import Any

import torch
from torch import nn

from tests.proxy_wrapper.thread_programs.tracing import digest, start, tell, traced, train, untraced

FORKS = 4
stop = threading.Event()


def net_of(seed: int, name: str) -> Any:
    generator = torch.Generator().manual_seed(seed)
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
    start(net, generator)
    net = traced(net, name)
    train(net, torch.optim.SGD(net.parameters(), lr=0.01), generator, 2)
    return net


def busy(seed: int) -> None:
    while not stop.is_set():
        untraced(net_of(seed, "busy"))


threads = [threading.Thread(target=busy, args=(seed,)) for seed in range(3)]
for thread in threads:
    thread.start()
results = []
for seed in range(FORKS):
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, digest(net_of(seed, "child")).encode())
        os._exit(0)
    results.append((os.read(reading, 100).decode(), os.waitpid(child, 0)[1]))
stop.set()
for thread in threads:
    thread.join()
print(results)
tell({})
