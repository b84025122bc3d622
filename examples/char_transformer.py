"""Trains a small decoder-only transformer, character by character, on sentences from a toy grammar."""

from __future__ import annotations

import argparse
import math
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class GPTConfig:
    vocab_size: int
    block_size: int = 64
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 64
    dropout: float = 0.1


class CausalSelfAttention(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.n_head = config.n_head
        self.dropout = config.dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.size()
        qkv = self.c_attn(x).view(B, T, 3, self.n_head, C // self.n_head)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (B, nh, T, hs) each
        dropout_p = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p, is_causal=True)
        out: torch.Tensor = self.c_proj(y.transpose(1, 2).reshape(B, T, C))
        return out


class Block(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.attn = CausalSelfAttention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.mlp = nn.Sequential(
            nn.Linear(config.n_embd, 4 * config.n_embd),
            nn.GELU(),
            nn.Linear(4 * config.n_embd, config.n_embd),
            nn.Dropout(config.dropout),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        out: torch.Tensor = x + self.mlp(self.ln_2(x))
        return out


class GPT(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.h = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.apply(self._init_weights)
        self.lm_head.weight = self.wte.weight  # weight tying

    def _init_weights(self, module: nn.Module) -> None:
        if type(module) in (nn.Linear, nn.Embedding):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)  # type: ignore[arg-type]
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]

    def forward(
        self, idx: torch.Tensor, targets: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        pos = torch.arange(idx.size(1), device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(pos))  # (B, T, C)
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))  # (B, T, vocab)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))
        return logits, loss

    @torch.no_grad()
    def generate(self, idx: torch.Tensor, max_new_tokens: int) -> torch.Tensor:
        for _ in range(max_new_tokens):
            logits, _ = self(idx[:, -self.config.block_size :])
            probs = F.softmax(logits[:, -1, :], dim=-1)
            idx = torch.cat((idx, torch.multinomial(probs, num_samples=1)), dim=1)
        return idx


def make_text(sentences: int, seed: int) -> str:
    rng = random.Random(seed)
    nouns = ["cat", "poet", "river", "sailor", "clock", "garden", "teacher", "lamp"]
    verbs = ["sees", "follows", "paints", "remembers", "finds", "loves"]
    adjectives = ["quiet", "old", "green", "patient", "small"]

    def noun_phrase() -> str:
        return " ".join(["the", *rng.sample(adjectives, rng.choice([0, 1, 1])), rng.choice(nouns)])

    return "".join(f"{noun_phrase()} {rng.choice(verbs)} {noun_phrase()}.\n" for _ in range(sentences))


def configure_optimizer(model: nn.Module, lr: float, weight_decay: float) -> torch.optim.AdamW:
    params = list(model.parameters())
    groups = [
        {"params": [p for p in params if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--max-steps", type=int, default=150, help="training steps (default: 150)")
    parser.add_argument("--batch-size", type=int, default=16, help="sequences per step (default: 16)")
    parser.add_argument("--lr", type=float, default=3e-3, help="highest learning rate (default: 3e-3)")
    parser.add_argument("--warmup", type=int, default=10, help="steps of warm-up (default: 10)")
    parser.add_argument("--grad-clip", type=float, default=1.0, help="largest gradient norm (default: 1.0)")
    parser.add_argument("--weight-decay", type=float, default=0.1, help="for matrices only (default: 0.1)")
    parser.add_argument("--seed", type=int, default=1337, help="random seed (default: 1337)")
    parser.add_argument("--log-interval", type=int, default=25, help="steps between two losses (default: 25)")
    parser.add_argument("--save-path", help="save the trained weights here")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    text = make_text(sentences=1000, seed=args.seed)
    chars = sorted(set(text))
    stoi = {ch: i for i, ch in enumerate(chars)}
    data = torch.tensor([stoi[c] for c in text], dtype=torch.long)

    config = GPTConfig(vocab_size=len(chars))
    model = GPT(config)
    model.to(device)
    optimizer = configure_optimizer(model, args.lr, args.weight_decay)

    def lr_factor(step: int) -> float:
        if step < args.warmup:
            return float((step + 1) / args.warmup)
        progress = (step - args.warmup) / max(1, args.max_steps - args.warmup)
        return 0.1 + 0.45 * (1.0 + math.cos(math.pi * progress))

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_factor)

    model.train()
    for step in range(args.max_steps):
        starts = torch.randint(len(data) - config.block_size, (args.batch_size,)).tolist()
        x = torch.stack([data[i : i + config.block_size] for i in starts]).to(device)
        y = torch.stack([data[i + 1 : i + 1 + config.block_size] for i in starts]).to(device)
        _, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), args.grad_clip)
        optimizer.step()
        scheduler.step()
        if step % args.log_interval == 0 or step == args.max_steps - 1:
            print(f"step {step}: loss {loss.item():.6f}, grad norm {norm.item():.6f}")

    model.eval()
    prompt = torch.tensor([[stoi["\n"]]], device=device)
    sample = model.generate(prompt, max_new_tokens=80)[0].tolist()
    print("".join(chars[i] for i in sample))

    if args.save_path:
        torch.save(model.state_dict(), args.save_path)


if __name__ == "__main__":
    main()
