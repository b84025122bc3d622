"""An encoder and a decoder with attention, teacher forcing, and a coin from Python's generator."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

random.seed(0)
torch.manual_seed(13)


class EncoderRNN(nn.Module):
    def __init__(self, size, hidden):
        super().__init__()
        self.embedding = nn.Embedding(size, hidden, padding_idx=0)
        self.gru = nn.GRU(hidden, hidden, bidirectional=True, batch_first=True)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False)
        output, hidden = self.gru(packed)
        output, _ = pad_packed_sequence(output, batch_first=True)
        return output, hidden.sum(0, keepdim=True)


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden, size):
        super().__init__()
        self.embedding = nn.Embedding(size, hidden)
        self.attn = nn.Bilinear(hidden, 2 * hidden, 1)
        self.gru = nn.GRUCell(3 * hidden, hidden)
        self.out = nn.Linear(hidden, size)

    def forward(self, token, hidden, memory):
        query = hidden[:, None].expand(-1, memory.size(1), -1).contiguous()
        weights = F.softmax(self.attn(query, memory).squeeze(2), dim=1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        hidden = self.gru(torch.cat((F.dropout(self.embedding(token), 0.1, self.training), context), 1), hidden)
        return F.log_softmax(self.out(hidden), dim=1), hidden


encoder, decoder = EncoderRNN(9, 6), AttnDecoderRNN(6, 9)
optimizers = [optim.SGD(m.parameters(), lr=0.1, momentum=0.5) for m in (encoder, decoder)]
criterion = nn.NLLLoss(ignore_index=0)
for step in range(3):
    source, target = torch.randint(1, 9, (3, 5)), torch.randint(1, 9, (3, 4))
    memory, hidden = encoder(source, torch.tensor([5, 3, 4]))
    hidden, token, loss = hidden[0], torch.ones(3, dtype=torch.long), 0
    teacher = random.random() < 0.5
    for t in range(4):
        logits, hidden = decoder(token, hidden, memory)
        loss += criterion(logits, target[:, t])
        token = target[:, t] if teacher else logits.topk(1)[1].squeeze(1).detach()
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    print(step, teacher, loss.item().hex())
print(random.random())
