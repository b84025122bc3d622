"""The reparametrisation trick, and batches from a DataLoader that shuffles."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(5)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(20, 12)
        self.fc21, self.fc22 = nn.Linear(12, 3), nn.Linear(12, 3)
        self.fc3 = nn.Linear(3, 12)
        self.fc4 = nn.Linear(12, 20)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x)
        return self.decode(self.reparameterize(mu, logvar)), mu, logvar


def main():
    device = torch.device("cpu")
    model = VAE().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=True)
    loader = DataLoader(TensorDataset(torch.rand(24, 20)), batch_size=8, shuffle=True)
    for epoch in range(2):
        model.train()
        total = 0
        for (data,) in loader:
            optimizer.zero_grad()
            recon, mu, logvar = model(data)
            loss = F.binary_cross_entropy(recon, data, reduction="sum")
            loss += -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
            loss.backward()
            total += loss.item()
            optimizer.step()
        model.eval()
        with torch.inference_mode():
            print(epoch, total.hex(), model.decode(torch.randn(2, 3)).sum().item().hex())
    return model


if __name__ == "__main__":
    trained = main()
