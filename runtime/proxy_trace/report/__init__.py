"""Writes a run, or the comparison of two runs, as an HTML page."""
