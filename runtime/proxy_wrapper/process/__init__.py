"""The traced process: its launch, forks and signals, and our background threads."""
