"""Comparing ranks of a run, and runs of a script."""
