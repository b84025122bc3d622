"""Train a small transformer on several processes: replicated (DDP), sharded (FSDP2), or split within layers (TP).

    torchrun --nproc-per-node 2 distributed_transformer.py --strategy ddp

Each process makes its own part of every batch. `--bug-step N` plants a bug that does not show in the loss: from
step N on, the last LayerNorm misses what keeps it the same everywhere, and drifts apart.
"""

import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

VOCABULARY = 32
LENGTH = 16


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm1(x)
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1), device=x.device)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        out: torch.Tensor = x + self.down(F.gelu(self.up(self.norm2(x))))
        return out


class Transformer(nn.Module):
    def __init__(self, width: int = 32, depth: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(tokens.size(1), device=tokens.device)
        x = self.tokens(tokens) + self.positions(positions)  # (batch, length, width)
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


def distribute(model: Transformer, strategy: str) -> nn.Module:
    if strategy == "ddp":
        return DistributedDataParallel(model)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        if strategy == "fsdp":
            fully_shard(block, mesh=mesh)
        else:
            parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    if strategy == "fsdp":
        fully_shard(model, mesh=mesh)
    return model


def make_batch(generator: torch.Generator, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences that start anywhere, and in which each token follows from the one before it."""
    rows = [torch.randint(VOCABULARY, (size,), generator=generator)]
    while len(rows) <= LENGTH:
        rows.append((5 * rows[-1] + 3) % VOCABULARY)
    sequence = torch.stack(rows, dim=1)  # (size, LENGTH + 1)
    return sequence[:, :-1], sequence[:, 1:]


def train(args: argparse.Namespace) -> None:
    rank = dist.get_rank()
    torch.manual_seed(0)
    transformer = Transformer()
    model = distribute(transformer, args.strategy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)

    # What the planted bug needs: the gradients as this process alone has them.
    own_gradients: dict[nn.Parameter, torch.Tensor] = {}
    for parameter in transformer.norm.parameters():
        parameter.register_hook(lambda gradient, key=parameter: own_gradients.__setitem__(key, gradient.clone()))

    # Under tensor parallelism all processes work on the same batch.
    generator = torch.Generator().manual_seed(0 if args.strategy == "tp" else rank)
    for step in range(args.steps):
        tokens, targets = make_batch(generator, args.batch_size)
        logits = model(tokens)
        loss = F.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        if args.bug_step is not None and step >= args.bug_step:
            for parameter, gradient in own_gradients.items():
                # As if it had been left out of the all-reduce; or clipped by one process only.
                parameter.grad = gradient if args.strategy == "ddp" else gradient * (1 + rank)
        optimizer.step()
        if step % args.log_interval == 0 or step == args.steps - 1:
            dist.all_reduce(loss, op=dist.ReduceOp.SUM)
            if rank == 0:
                print(f"step {step}: loss {loss.item() / dist.get_world_size():.6f}", flush=True)

    if args.save_path:
        state = {
            key: value.to_local() if isinstance(value, DTensor) else value for key, value in model.state_dict().items()
        }
        torch.save(state, f"{args.save_path}.{rank}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--strategy", choices=["ddp", "fsdp", "tp"], default="ddp")
    parser.add_argument("--steps", type=int, default=40, help="training steps (default: 40)")
    parser.add_argument("--batch-size", type=int, default=16, help="sequences per process (default: 16)")
    parser.add_argument("--lr", type=float, default=3e-3, help="learning rate (default: 3e-3)")
    parser.add_argument("--log-interval", type=int, default=10, help="steps between two losses (default: 10)")
    parser.add_argument("--bug-step", type=int, help="from this step on, the last LayerNorm drifts apart (ddp, tp)")
    parser.add_argument("--save-path", help="save what each process has of the weights here, its rank behind the name")
    args = parser.parse_args()
    if args.bug_step is not None and args.strategy == "fsdp":
        parser.error("--bug-step needs replicas, which can drift apart: give --strategy ddp or tp")

    dist.init_process_group("gloo")
    train(args)  # Its model ends with it: DDP's reducer hangs now and then if it is the last to let go of the group.
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
