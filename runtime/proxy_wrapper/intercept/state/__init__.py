"""Parameters, buffers, gradients and optimizers: what they hold and when it changes."""
