"""A graph network: scatter, gather, sparse products, and parameters in lists and dicts."""
import torch
from torch import nn

torch.manual_seed(6)


class GraphLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weights = nn.ParameterDict({"self": torch.randn(dim, dim) * 0.1, "other": torch.randn(dim, dim) * 0.1})
        self.gates = nn.ParameterList([nn.Parameter(torch.ones(())) for _ in range(2)])
        self.register_buffer("degree", torch.zeros(5), persistent=False)

    def forward(self, x, edges):
        src, dst = edges
        messages = x[src] @ self.weights["other"]
        out = torch.zeros_like(x).index_add_(0, dst, messages)
        self.degree.zero_().scatter_add_(0, dst, torch.ones(len(dst)))
        out = out / self.degree.clamp(min=1)[:, None]
        return torch.tanh(self.gates[0] * (x @ self.weights["self"]) + self.gates[1] * out)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(GraphLayer(4) for _ in range(2))
        self.heads = nn.ModuleDict({"node": nn.Linear(4, 3), "graph": nn.Linear(4, 1)})

    def forward(self, x, edges):
        for layer in self.layers:
            x = layer(x, edges)
        return self.heads["node"](x), self.heads["graph"](x.mean(0))


edges = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]])
adjacency = torch.sparse_coo_tensor(edges, torch.ones(6), (5, 5)).coalesce()
features, labels = torch.randn(5, 4), torch.tensor([0, 1, 2, 0, 1])
net = Net()
optimizer = torch.optim.Adagrad(net.parameters(), lr=0.05)
for step in range(4):
    node, graph = net(torch.sparse.mm(adjacency, features), edges)
    loss = nn.functional.cross_entropy(node, labels) + graph.square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), (node.argmax(1) == labels).sum().item())
