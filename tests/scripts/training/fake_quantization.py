"""Rounding in the forward with a straight-through gradient, as an autograd.Function and by detach."""
import torch
from torch import nn

torch.manual_seed(12)


class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(x, scale):
        return torch.fake_quantize_per_tensor_affine(x, scale.item(), 0, -8, 7)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, scale = inputs
        ctx.save_for_backward(x, scale)

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        inside = (x / scale).abs() <= 7.5
        return grad * inside, (grad * ~inside * x.sign()).sum()


class QuantLinear(nn.Linear):
    def __init__(self, *args):
        super().__init__(*args)
        self.scale = nn.Parameter(torch.tensor(0.1))
        self.register_buffer("running_max", torch.tensor(1.0))

    def forward(self, x):
        if self.training:
            self.running_max = 0.9 * self.running_max + 0.1 * x.abs().max().detach()
        step = self.running_max / 7
        x = x + ((x / step).round() * step - x).detach()
        return nn.functional.linear(x, RoundSTE.apply(self.weight, self.scale), self.bias)


model = nn.Sequential(QuantLinear(6, 8), nn.ReLU6(), QuantLinear(8, 2))
groups = [
    {"params": [p for n, p in model.named_parameters() if "scale" not in n]},
    {"params": [p for n, p in model.named_parameters() if "scale" in n], "lr": 1e-3, "weight_decay": 0.0},
]
optimizer = torch.optim.AdamW(groups, lr=1e-2)
for step in range(4):
    loss = nn.functional.mse_loss(model(torch.randn(5, 6)), torch.randn(5, 2))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), [s.item().hex() for n, s in model.named_parameters() if "scale" in n])
model.eval()
quantized = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(6, 2)), {nn.Linear}, dtype=torch.qint8)
print(quantized(torch.ones(1, 6)).tolist())
