"""Graph passes: each changes a `torch.fx.GraphModule` and returns it."""
