"""Compares two runs record by record: where they first differ, and how far they diverge from there."""
