"""Summarizes a run: what happened and what looks wrong, for people and programs."""
