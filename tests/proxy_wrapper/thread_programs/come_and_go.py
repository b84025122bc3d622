"""Threads make, train, take out and free models all the time: with the last one the hooks go, and come again."""

from __future__ import annotations

import gc
import threading

import torch
from torch import nn

from tests.proxy_wrapper.thread_programs.tracing import digest, start, tell, traced, train, untraced

THREADS, MODELS = 5, 6
results = [""] * THREADS
errors: list[str] = []


class Failing(nn.Module):
    """Raises: then torch goes through the registry of hooks, calling them, and any change of it would raise, too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError(f"meant, {tuple(x.shape)}")


def work(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    digests = []
    try:
        for turn in range(MODELS):
            net = traced(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)), "net")
            start(net, generator)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
            train(net, optimizer, generator, 3)
            try:
                Failing()(torch.ones(3))
            except ValueError as error:
                digests.append(str(error))
            digests.append(digest(net))
            if (seed + turn) % 2:
                untraced(net)
            elif turn % 3 == 0:
                del net, optimizer
                gc.collect()
    except BaseException as error:  # noqa: BLE001
        errors.append(repr(error))
    results[seed] = "".join(digests)


threads = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(errors, results)
tell({})
