"""Patterns in the source of a program that are mistakes whatever the values are, one finder per file.

Nothing is run. A finder reads the syntax of one file, and `unsigned_differences` and `reshaped_samples` that
of a data set, with its values.
"""
