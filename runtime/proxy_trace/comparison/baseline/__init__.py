"""Compares a run with several that differ in their seeds alone."""
