"""Places in the program's code."""
