"""Averaged weights, batch-norm statistics recomputed for them, a scheduler of their own, and a checkpoint."""
import io

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

torch.manual_seed(10)
data = [(torch.randn(6, 4), torch.randn(6, 1)) for _ in range(4)]
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Hardswish(), nn.Linear(8, 1))
swa_model = AveragedModel(model)
ema_model = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
optimizer = torch.optim.NAdam(model.parameters(), lr=0.05)
swa_scheduler = SWALR(optimizer, swa_lr=0.01, anneal_epochs=2)
for epoch in range(3):
    for x, y in data:
        optimizer.zero_grad()
        loss = nn.functional.huber_loss(model(x), y)
        loss.backward()
        optimizer.step()
        ema_model.update_parameters(model)
    swa_model.update_parameters(model)
    swa_scheduler.step()
    print(epoch, loss.item().hex())
update_bn([x for x, _ in data], swa_model)
swa_model.eval()
print(swa_model(data[0][0]).sum().item().hex(), ema_model(data[0][0]).sum().item().hex())
file = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
file.seek(0)
checkpoint = torch.load(file, weights_only=True)
resumed = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Hardswish(), nn.Linear(8, 1))
print(resumed.load_state_dict(checkpoint["model"]), sorted(checkpoint["optimizer"]))
