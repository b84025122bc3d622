"""Trains under DDP, FSDP2 and tensor parallelism, plain and traced, and fails unless both give the same bits.

Started by torchrun, with the logdir and the names of the strategies as its arguments.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import proxy_wrapper.proxy as Proxy

if TYPE_CHECKING:
    from collections.abc import Callable


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.2)
        self.down = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.down(self.drop(torch.relu(self.norm(self.up(x)))))
        return out


def with_ddp(model: Net) -> nn.Module:
    return DistributedDataParallel(model)


def with_fsdp(model: Net) -> nn.Module:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    fully_shard(model.up, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def with_tensor_parallelism(model: Net) -> nn.Module:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    # The layers between them are replicated, and see whole activations.
    from torch.distributed.tensor import Replicate

    plan = {"up": ColwiseParallel(output_layouts=Replicate()), "down": RowwiseParallel(input_layouts=Replicate())}
    return parallelize_module(model, mesh, plan)


def own(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """A copy of what this process has of a tensor."""
    if isinstance(tensor, DTensor):
        tensor = tensor.to_local()
    return None if tensor is None else tensor.detach().clone()


def train(distribute: Callable[[Net], nn.Module], *, same_data: bool, settings: dict[str, Any] | None) -> list[Any]:
    """Losses, parameters, gradients, buffers and the state of the random numbers after some steps."""
    rank = dist.get_rank()
    torch.manual_seed(0 if same_data else rank)
    model = Net()
    if settings is not None:
        assert Proxy.Proxy(model, recurse=True, **settings) is model
    distributed = distribute(model)
    optimizer = torch.optim.AdamW(distributed.parameters(), lr=0.01)
    results: list[Any] = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = distributed(torch.randn(5, 6)).square().mean()
        loss.backward()
        optimizer.step()
        results.append(own(loss))
    distributed.eval()
    with torch.no_grad():
        results.append(own(distributed(torch.ones(2, 6))))
    for parameter in distributed.parameters():
        results += [own(parameter), own(parameter.grad)]
    results += [own(buffer) for buffer in distributed.buffers()]
    return [*results, torch.get_rng_state()]


def main() -> None:
    dist.init_process_group("gloo")
    for name, distribute, same_data in (
        ("ddp", with_ddp, False),
        ("fsdp", with_fsdp, False),
        ("tp", with_tensor_parallelism, True),
    ):
        if name not in sys.argv[2:]:
            continue
        plain = train(distribute, same_data=same_data, settings=None)
        for level in ("INFO", "DEBUG"):
            settings = {"name": f"{name}_{level}", "logdir": sys.argv[1], "log_level": level}
            traced = train(distribute, same_data=same_data, settings=settings)
            assert len(plain) == len(traced) > 10
            for one, other in zip(plain, traced, strict=True):
                assert (one is None) == (other is None)
                assert one is None or torch.equal(one, other), f"{name} differs at {level}"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
