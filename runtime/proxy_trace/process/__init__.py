"""What one process did: its calls, its state, its training."""
