"""Compiled code: its edges, and what its compiler gets to see."""
