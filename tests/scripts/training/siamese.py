"""One network called twice in each step; a margin loss with a branch on it."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(4)


class SiameseNetwork(nn.Module):
    def __init__(self):
        super(SiameseNetwork, self).__init__()
        self.cnn = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(1, 4, 3), nn.ReLU(inplace=True), nn.BatchNorm2d(4))
        self.fc = nn.LazyLinear(5)

    def forward_once(self, x):
        return self.fc(self.cnn(x).view(x.size(0), -1))

    def forward(self, a, b):
        return self.forward_once(a), self.forward_once(b)


class ContrastiveLoss(nn.Module):
    def forward(self, a, b, label):
        d = F.pairwise_distance(a, b, keepdim=True)
        return torch.mean((1 - label) * d.pow(2) + label * torch.clamp(2.0 - d, min=0.0).pow(2))


net = SiameseNetwork()
net(torch.zeros(2, 1, 6, 6), torch.zeros(2, 1, 6, 6))
criterion = ContrastiveLoss()
optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3, alpha=0.99, momentum=0.9)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=5)
for i in range(4):
    a, b = torch.rand(4, 1, 6, 6), torch.rand(4, 1, 6, 6)
    label = torch.randint(0, 2, (4, 1)).float()
    loss = criterion(*net(a, b), label)
    if loss > 0.5:
        loss = loss * 0.5
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(i, loss.item().hex(), scheduler.get_last_lr())
