"""Writes what comparing two runs found as a page to look at."""
