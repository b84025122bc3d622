"""Measures what is attached to a training step, in processes that take turns. For the scripts beside."""
