"""Compares two runs record by record: where they part first, and how far they go apart from there."""
