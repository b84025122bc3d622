"""Two networks, two optimizers, and a generator's step that leaves gradients in the discriminator."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(True), nn.Linear(16, 2), nn.Tanh())

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.utils.parametrizations.spectral_norm(nn.Linear(2, 16)), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 1)
        )

    def forward(self, x):
        return self.main(x).squeeze(1)


def weights_init(m):
    if type(m) == nn.BatchNorm1d:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


netG, netD = Generator(), Discriminator()
netG.apply(weights_init)
criterion = nn.BCEWithLogitsLoss()
optD = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999))
optG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999))
for step in range(4):
    real = torch.randn(8, 2) * 0.3 + 1
    fake = netG(torch.randn(8, 4))
    optD.zero_grad()
    lossD = criterion(netD(real), torch.ones(8)) + criterion(netD(fake.detach()), torch.zeros(8))
    lossD.backward()
    optD.step()
    optG.zero_grad()
    lossG = criterion(netD(fake), torch.ones(8))
    lossG.backward()
    optG.step()
    print(step, repr(lossD.item()), repr(lossG.item()))
