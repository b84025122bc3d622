"""Follows a run in progress."""
