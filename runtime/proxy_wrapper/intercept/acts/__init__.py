"""What a program does around training: loading data, clipping gradients, saving, branching."""
