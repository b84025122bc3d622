"""Flow steps: which branches a program took, and where two runs diverge."""
