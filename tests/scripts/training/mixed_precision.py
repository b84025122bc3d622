"""bfloat16 autocast, a gradient scaler, accumulation over micro-batches, and channels-last."""
import torch
import torch.nn as nn

torch.manual_seed(9)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.conv2 = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(c)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.act(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x
        return self.act(out)


model = nn.Sequential(nn.Conv2d(1, 4, 3), Block(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
model = model.to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4, fused=True)
scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)
for step in range(3):
    optimizer.zero_grad()
    for _ in range(2):
        x, y = torch.rand(4, 1, 8, 8), torch.randint(0, 3, (4,))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.1) / 2
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    print(step, loss.item().hex(), norm.item().hex(), scaler.get_scale())
