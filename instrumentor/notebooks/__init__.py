"""Notebooks, processed as scripts."""
