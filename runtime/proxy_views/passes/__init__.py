"""Changes to a graph: each takes a `torch.fx.GraphModule`, changes it, and gives it back."""
