"""A program of many processes, started in each of Python's ways. Run with the logdir, and a folder for what it finds.

Whoever has a model here got it from the parent, by whatever way, unless it says so.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.spawn import start_processes
from torch.utils.data import DataLoader, Dataset

import proxy_wrapper.proxy as Proxy

LOGDIR, FOUND = sys.argv[1], Path(sys.argv[2])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        self.head = nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.inner(x))
        return out


class Reader(Dataset[torch.Tensor]):
    """Runs a proxied model in the worker that loads data."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        with torch.no_grad():
            out: torch.Tensor = self.model(torch.ones(3))
        return out


def note(name: str, **facts: Any) -> None:
    torch.save(facts, FOUND / f"{name}.pt")


def train(model: nn.Module, steps: int = 2) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()


def work(name: str, models: dict[str, list[Any]]) -> None:
    """Train what was sent within a container, and a model of its own."""
    model = models["models"][0]
    note(name, pid=os.getpid(), is_proxied=Proxy.is_proxied(model), is_shared=model.head.weight.is_shared())
    train(model)
    train(Proxy.Proxy(Net(), recurse=True, name="own", logdir=LOGDIR), steps=1)


def fail(model: nn.Module) -> None:
    model(torch.ones(1, 3))
    raise ValueError("mine")


def train_in_pool(model: Any) -> Any:
    model(torch.ones(1, 3))
    return os.getpid(), model


def train_as_rank(rank: int, file: str) -> None:
    """Proxied before anybody knows the rank, which is nowhere in the environment."""
    torch.manual_seed(0)
    model = Proxy.Proxy(Net(), recurse=True, name="replica", logdir=LOGDIR)
    model(torch.ones(1, 3))
    Proxy.flush()
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    train(nn.parallel.DistributedDataParallel(model))
    dist.destroy_process_group()
    note(f"rank{rank}", pid=os.getpid())


def main() -> None:
    model = Proxy.Proxy(Net(), recurse=True, name="net", logdir=LOGDIR)
    Proxy.Proxy(model.inner, log_level="WARNING")
    model.share_memory()
    before = model.head.weight.detach().clone()
    for method in sys.argv[3:]:
        process = multiprocessing.get_context(method).Process(  # type: ignore[attr-defined]
            target=work, args=(method, {"models": [model]})
        )
        process.start()
        process.join()
        assert process.exitcode == 0
    changed = not torch.equal(before, model.head.weight)
    note("parent", pid=os.getpid(), changed=changed)

    process = multiprocessing.get_context("fork").Process(target=fail, args=(model,))
    process.start()
    process.join()
    note("failed", pid=process.pid, code=process.exitcode)

    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        pid, back = pool.submit(train_in_pool, model).result()
        note("pool", pid=pid, is_proxied=Proxy.is_proxied(back))

    start_processes(train_as_rank, args=(str(FOUND / "rendezvous"),), nprocs=2, start_method="fork")

    for method in ("fork", "spawn"):
        list(DataLoader(Reader(model), num_workers=1, multiprocessing_context=method))

    subprocess.run([sys.executable, "-c", OTHER_PROGRAM, LOGDIR, str(FOUND)], check=True)


OTHER_PROGRAM = """
import os, sys, torch
import proxy_wrapper.proxy as Proxy
model = Proxy.Proxy(torch.nn.Linear(1, 1), name="other", logdir=sys.argv[1])
model(torch.ones(1, 1))
torch.save({"pid": os.getpid()}, os.path.join(sys.argv[2], "other.pt"))
"""

if __name__ == "__main__":
    main()
