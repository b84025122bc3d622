"""Compares a run with several runs that differ only in their seeds."""
