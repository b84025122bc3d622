"""Finds lines in the code of the program, one finder per file."""
