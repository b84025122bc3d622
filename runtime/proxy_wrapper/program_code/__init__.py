"""Reads the code of the running program: its functions, their variables, and what a line assigns and calls."""
