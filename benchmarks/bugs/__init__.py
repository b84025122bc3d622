"""Pairs of scripts that differ by one silent training bug, and what is found in them. For `diagnosis.py` beside."""
