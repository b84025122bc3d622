"""Training by hand: `p -= lr * p.grad` on parameters, weights replaced by new ones, and an exception that is caught."""
import torch

torch.manual_seed(15)


class Polynomial3(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = (torch.nn.Parameter(torch.randn(())) for _ in range(4))

    def forward(self, x):
        return self.a + self.b * x + self.c * x**2 + self.d * x**3

    def string(self):
        return f"y = {self.a.item()} + {self.b.item()} x + {self.c.item()} x^2 + {self.d.item()} x^3"


x = torch.linspace(-3.14, 3.14, 50)
y = torch.sin(x)
model = Polynomial3()
for t in range(4):
    loss = (model(x) - y).pow(2).sum()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name == "d":
                setattr(model, name, torch.nn.Parameter(p - 1e-5 * p.grad))
            else:
                p -= 1e-5 * p.grad
    print(t, loss.item().hex())
try:
    model("not a tensor")
except TypeError as error:
    print("caught", error)
print(model.string(), -model.a > 0, abs(model.b) // 2, 1 / model.c, model.d == 0, {model: 1}[model])
