"""Noise prediction with time embeddings, an EMA of the weights, and sampling without gradients."""
import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(2)


class TimeEmbedding(nn.Module):
    def forward(self, t):
        freqs = torch.exp(-math.log(100) * torch.arange(4) / 4)
        return torch.cat([torch.sin(t[:, None] * freqs), torch.cos(t[:, None] * freqs)], dim=1)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = TimeEmbedding()
        self.inp = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.emb = nn.Linear(8, 8)
        self.out = nn.Conv2d(8, 1, 3, padding=1)

    def forward(self, x, t):
        h = F.silu(self.norm(self.inp(x)))
        h = h + self.emb(self.time(t))[:, :, None, None]
        return self.out(F.silu(h))


betas = torch.linspace(1e-4, 0.02, 10)
alphas_bar = torch.cumprod(1 - betas, dim=0)
model = Denoiser()
ema = copy.deepcopy(model).requires_grad_(False).eval()
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(4):
    x0 = torch.rand(4, 1, 6, 6)
    t = torch.randint(0, 10, (4,))
    noise = torch.randn_like(x0)
    a = alphas_bar[t][:, None, None, None]
    loss = F.mse_loss(model(a.sqrt() * x0 + (1 - a).sqrt() * noise, t.float()), noise)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    with torch.no_grad():
        for p, q in zip(ema.parameters(), model.parameters()):
            p.lerp_(q, 0.1)
    print(step, repr(loss.item()))


@torch.no_grad()
def sample():
    x = torch.randn(1, 1, 6, 6)
    for i in reversed(range(10)):
        eps = ema(x, torch.full((1,), float(i)))
        x = (x - betas[i] / (1 - alphas_bar[i]).sqrt() * eps) / (1 - betas[i]).sqrt()
        if i:
            x += betas[i].sqrt() * torch.randn_like(x)
    return x


print(sample().sum().item().hex())
