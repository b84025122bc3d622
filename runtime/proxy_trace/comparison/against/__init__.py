"""Compares a run with a good run of the same script."""
