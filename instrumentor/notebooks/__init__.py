"""Notebooks, as the scripts that they are."""
