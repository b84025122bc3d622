"""Selects, reads and writes scripts."""
