"""Trains a tiny DCGAN, two models with an optimizer each, on generated pictures of soft blobs."""

import argparse

import torch
import torch.nn as nn
import torch.optim as optim

nz = 32  # size of the latent vector
ngf = 16  # feature maps in the generator
ndf = 16  # feature maps in the discriminator


def weights_init(m: nn.Module) -> None:
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight, 0.0, 0.02)  # type: ignore[arg-type]
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight, 1.0, 0.02)  # type: ignore[arg-type]
        nn.init.zeros_(m.bias)  # type: ignore[arg-type]


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            # (B, 2 * ngf, 4, 4)
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            # (B, ngf, 8, 8)
            nn.ConvTranspose2d(ngf, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
            # (B, 1, 16, 16)
        )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.main(input)
        return output


class Discriminator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, ndf, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            # (B, ndf, 8, 8)
            nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ndf * 2),
            nn.LeakyReLU(0.2, inplace=True),
            # (B, 2 * ndf, 4, 4)
            nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        output: torch.Tensor = self.main(input)
        return output.view(-1)


def real_images(batch_size: int, generator: torch.Generator) -> torch.Tensor:
    """Draws pictures of one blob each, in [-1, 1]: (B, 1, 16, 16)."""
    ticks = torch.arange(16, dtype=torch.float32)
    x, y, size = 4 + 8 * torch.rand(3, batch_size, 1, 1, generator=generator)
    distance = (ticks.view(1, 1, 16) - x) ** 2 + (ticks.view(1, 16, 1) - y) ** 2  # (B, 16, 16)
    return (2 * torch.exp(-distance / size) - 1).unsqueeze(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=120, help="training steps (default: 120)")
    parser.add_argument("--batch-size", type=int, default=64, help="pictures per step (default: 64)")
    parser.add_argument("--lr", type=float, default=0.0002, help="learning rate (default: 0.0002)")
    parser.add_argument("--beta1", type=float, default=0.5, help="beta1 of Adam (default: 0.5)")
    parser.add_argument("--seed", type=int, default=999, help="random seed (default: 999)")
    parser.add_argument("--log-interval", type=int, default=20, help="steps between two losses (default: 20)")
    parser.add_argument("--save-path", help="save the weights of both models here")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    pictures = torch.Generator().manual_seed(args.seed)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

    netG = Generator().to(device)
    netG.apply(weights_init)

    netD = Discriminator().to(device)
    netD.apply(weights_init)

    criterion = nn.BCELoss()
    optimizerD = optim.Adam(netD.parameters(), lr=args.lr, betas=(args.beta1, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=args.lr, betas=(args.beta1, 0.999))

    for step in range(args.steps):
        # Discriminator: maximize log(D(x)) + log(1 - D(G(z)))
        netD.zero_grad()
        real = real_images(args.batch_size, pictures).to(device)
        label = torch.full((args.batch_size,), 1.0, device=device)
        output = netD(real)
        errD_real = criterion(output, label)
        errD_real.backward()
        D_x = output.mean().item()

        noise = torch.randn(args.batch_size, nz, 1, 1, device=device)
        fake = netG(noise)
        label.fill_(0.0)
        output = netD(fake.detach())
        errD_fake = criterion(output, label)
        errD_fake.backward()
        errD = errD_real + errD_fake
        optimizerD.step()

        # Generator: maximize log(D(G(z)))
        netG.zero_grad()
        label.fill_(1.0)
        output = netD(fake)
        errG = criterion(output, label)
        errG.backward()
        D_G_z = output.mean().item()
        optimizerG.step()

        if step % args.log_interval == 0 or step == args.steps - 1:
            print(
                f"[{step}/{args.steps}] Loss_D: {errD.item():.6f} Loss_G: {errG.item():.6f} "
                f"D(x): {D_x:.6f} D(G(z)): {D_G_z:.6f}"
            )

    if args.save_path:
        torch.save({"netG": netG.state_dict(), "netD": netD.state_dict()}, args.save_path)


if __name__ == "__main__":
    main()
