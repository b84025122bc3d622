"""What a program does around training: creating optimizers, loading data and weights, clipping gradients, branching."""
