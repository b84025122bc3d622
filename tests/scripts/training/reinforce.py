"""A policy gradient: actions drawn from the network's output, returns computed in Python."""
import torch
from torch import nn, optim
from torch.distributions import Categorical

torch.manual_seed(1)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine = nn.Linear(4, 16)
        self.dropout = nn.Dropout(p=0.2)
        self.head = nn.Linear(16, 2)
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        x = torch.relu(self.dropout(self.affine(x)))
        return torch.softmax(self.head(x), dim=1)


policy = Policy()
optimizer = optim.Adam(policy.parameters(), lr=1e-2)


def select_action(state):
    m = Categorical(policy(state.unsqueeze(0)))
    action = m.sample()
    policy.saved_log_probs.append(m.log_prob(action))
    return action.item()


for episode in range(3):
    state = torch.zeros(4)
    for _ in range(6):
        action = select_action(state)
        state = state * 0.9 + (0.5 if action else -0.5) * torch.randn(4)
        policy.rewards.append(-state.abs().sum().item())
        if state.norm() > 3:
            break
    returns, total = [], 0.0
    for reward in reversed(policy.rewards):
        total = reward + 0.99 * total
        returns.insert(0, total)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    optimizer.zero_grad()
    loss = torch.cat([-log_prob * r for log_prob, r in zip(policy.saved_log_probs, returns)]).sum()
    loss.backward()
    optimizer.step()
    print(episode, len(policy.rewards), repr(float(loss)))
    del policy.rewards[:]
    del policy.saved_log_probs[:]
