"""An optimizer of the script's own whose `step` torch's hooks do not see, and one that is no Optimizer at all."""
import torch
from torch import nn


class SignSGD:
    """Holds a list of parameters; keeps velocity in a dict keyed by them."""

    def __init__(self, params, lr, beta=0.9):
        self.params, self.lr, self.beta = list(params), lr, beta
        self.velocity = {p: torch.zeros_like(p) for p in self.params}

    @torch.no_grad()
    def step(self):
        for p in self.params:
            if p.grad is None:
                continue
            v = self.velocity[p]
            v.mul_(self.beta).add_(p.grad, alpha=1 - self.beta)
            p -= self.lr * v.sign()

    def zero_grad(self):
        for p in self.params:
            p.grad = None


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99)):
        super().__init__(params, dict(lr=lr, betas=betas))

    def step(self, closure=None):
        with torch.no_grad():
            for group in self.param_groups:
                b1, b2 = group["betas"]
                for p in group["params"]:
                    if p.grad is not None:
                        m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                        p.add_(m.lerp(p.grad, 1 - b1).sign_(), alpha=-group["lr"])
                        m.lerp_(p.grad, 1 - b2)


class Sharpness:
    """SAM: climbs, takes a second gradient there, comes back and steps with it."""

    def __init__(self, base, rho=0.05):
        self.base, self.rho = base, rho

    def step(self, closure):
        params = [p for g in self.base.param_groups for p in g["params"]]
        closure().backward()
        norm = torch.stack([p.grad.norm() for p in params]).norm() + 1e-12
        old = [p.detach().clone() for p in params]
        with torch.no_grad():
            for p in params:
                p += self.rho * p.grad / norm
        self.base.zero_grad()
        loss = closure()
        loss.backward()
        for p, before in zip(params, old):
            p.data = before
        self.base.step()
        self.base.zero_grad()
        return loss


torch.manual_seed(14)
x, y = torch.randn(8, 3), torch.randn(8, 1)
results = []
for make in (lambda p: SignSGD(p, 0.01), lambda p: Lion(p), lambda p: Sharpness(torch.optim.SGD(p, lr=0.1))):
    model = nn.Sequential(nn.Linear(3, 4), nn.SELU(), nn.Linear(4, 1))
    optimizer = make(model.parameters())
    for step in range(3):
        if isinstance(optimizer, Sharpness):
            loss = optimizer.step(lambda: (model(x) - y).square().mean())
        else:
            loss = (model(x) - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(type(optimizer).__name__, step, loss.item().hex())
    results.append([p.detach().clone() for p in model.parameters()])
