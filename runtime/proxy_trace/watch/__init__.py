"""Follows a run that is still going."""
