"""Second-order fitting with a closure, in double precision."""
import torch
from torch import nn, optim

torch.manual_seed(8)
torch.set_default_dtype(torch.float64)
try:

    class Sequence(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm1 = nn.LSTMCell(1, 6)
            self.linear = nn.Linear(6, 1)

        def forward(self, input, future=0):
            outputs = []
            h, c = torch.zeros(input.size(0), 6), torch.zeros(input.size(0), 6)
            for input_t in input.split(1, dim=1):
                h, c = self.lstm1(input_t, (h, c))
                output = self.linear(h)
                outputs += [output]
            for _ in range(future):
                h, c = self.lstm1(output, (h, c))
                output = self.linear(h)
                outputs += [output]
            return torch.cat(outputs, dim=1)

    data = torch.sin(torch.arange(10.0)[None] * 0.3 + torch.arange(3.0)[:, None])
    seq = Sequence().double()
    criterion = nn.MSELoss()
    optimizer = optim.LBFGS(seq.parameters(), lr=0.8, line_search_fn="strong_wolfe", max_iter=4)
    for i in range(2):

        def closure():
            optimizer.zero_grad()
            out = seq(data[:, :-1])
            loss = criterion(out, data[:, 1:])
            print("loss:", loss.item().hex())
            loss.backward()
            return loss

        optimizer.step(closure)
        with torch.no_grad():
            print("test:", seq(data, future=3).sum().item().hex())
finally:
    torch.set_default_dtype(torch.float32)
