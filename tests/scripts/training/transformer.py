"""An encoder from torch.nn in training and in evaluation with padding, label smoothing, warm-up and checkpointing."""
import math

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(16)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=20):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(position * div_term), torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 16, padding_idx=0)
        self.position = PositionalEncoding(16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, 0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.extra = nn.TransformerEncoderLayer(16, 4, 16, 0.0, activation="gelu", batch_first=True, norm_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, tokens):
        x = self.encoder(self.position(self.embed(tokens) * 4), src_key_padding_mask=tokens == 0)
        x = checkpoint(self.extra, x, use_reentrant=False) if self.training else self.extra(x)
        return self.head(x.mean(1))


model = Classifier()
optimizer = torch.optim.RAdam(model.parameters(), lr=1e-2, decoupled_weight_decay=True)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))
tokens = torch.tensor([[1, 2, 3, 4, 0, 0], [5, 6, 7, 8, 9, 10], [2, 4, 6, 0, 0, 0]])
for step in range(3):
    loss = nn.functional.cross_entropy(model(tokens), torch.tensor([0, 1, 2]), label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    warmup.step()
    print(step, loss.item().hex())
model.eval()
with torch.no_grad():
    print(model(tokens).tolist())
