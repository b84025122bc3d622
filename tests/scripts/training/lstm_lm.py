"""A language model with tied weights, hidden states carried between batches, and a hand-written step."""
import torch
from torch import nn

torch.manual_seed(3)


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, ninp, 2, dropout=0.2)
        self.decoder = nn.Linear(ninp, ntoken)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(input)), hidden)
        return self.decoder(self.drop(output)).flatten(0, 1), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return (weight.new_zeros(2, bsz, 8), weight.new_zeros(2, bsz, 8))


def repackage_hidden(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


model = RNNModel(12, 8)
criterion = nn.CrossEntropyLoss()
data = torch.randint(0, 12, (20, 3))
lr = 2.0
for epoch in range(2):
    hidden = model.init_hidden(3)
    for i in range(0, data.size(0) - 1, 5):
        seq = min(5, data.size(0) - 1 - i)
        inputs, targets = data[i : i + seq], data[i + 1 : i + 1 + seq].reshape(-1)
        model.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(inputs, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-lr)
        print(epoch, i, loss.item().hex())
