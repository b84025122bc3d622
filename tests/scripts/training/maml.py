"""Meta-learning: gradients through gradient steps, with the weights passed by `functional_call`."""
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(7)
learner = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
meta_optimizer = torch.optim.Adam(learner.parameters(), lr=1e-2)
for iteration in range(3):
    meta_optimizer.zero_grad()
    meta_loss = 0.0
    for task in range(2):
        amplitude = torch.rand(1) * 2 + 0.5
        x_train, x_test = torch.randn(5, 1), torch.randn(5, 1)
        weights = dict(learner.named_parameters())
        for _ in range(2):
            loss = (functional_call(learner, weights, (x_train,)) - amplitude * x_train.sin()).square().mean()
            grads = torch.autograd.grad(loss, tuple(weights.values()), create_graph=True)
            weights = {name: w - 0.1 * g for (name, w), g in zip(weights.items(), grads)}
        meta_loss = meta_loss + (functional_call(learner, weights, (x_test,)) - amplitude * x_test.sin()).square().mean()
    meta_loss.backward()
    meta_optimizer.step()
    print(iteration, meta_loss.item().hex())
