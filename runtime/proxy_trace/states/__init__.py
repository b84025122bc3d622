"""The states of several traces, step by step, side by side."""
