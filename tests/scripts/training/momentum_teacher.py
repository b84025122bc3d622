"""Contrastive learning with a teacher that follows the student, a queue as a buffer, and a projection head."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)


class MoCo(nn.Module):
    def __init__(self, base_encoder, dim=4, K=8, m=0.9):
        super().__init__()
        self.m = m
        self.encoder_q, self.encoder_k = base_encoder(dim), base_encoder(dim)
        for param_q, param_k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            param_k.data.copy_(param_q.data)
            param_k.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(dim, K), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def _momentum_update(self):
        for param_q, param_k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            param_k.data = param_k.data * self.m + param_q.data * (1.0 - self.m)

    @torch.no_grad()
    def _enqueue(self, keys):
        ptr = int(self.queue_ptr)
        self.queue[:, ptr : ptr + keys.shape[0]] = keys.T
        self.queue_ptr[0] = (ptr + keys.shape[0]) % self.queue.shape[1]

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self._momentum_update()
            idx_shuffle = torch.randperm(im_k.shape[0])
            k = F.normalize(self.encoder_k(im_k[idx_shuffle]), dim=1)[torch.argsort(idx_shuffle)]
        l_pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        logits = torch.cat([l_pos, torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])], dim=1) / 0.2
        self._enqueue(k)
        return logits, torch.zeros(logits.shape[0], dtype=torch.long)


def encoder(dim):
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, dim))


model = MoCo(encoder)
optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), 0.1, momentum=0.9)
for step in range(4):
    x = torch.randn(4, 6)
    output, target = model(x + 0.1 * torch.randn_like(x), x)
    loss = F.cross_entropy(output, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), model.queue_ptr.item())
