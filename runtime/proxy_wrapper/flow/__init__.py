"""Flow steps: code that reports the outcome of each of its conditions, and the iterations of each of its loops.

`observed_code` recompiles a file with its conditions observed. `source_file` finds a function's code in the result.
`reachable` decides which functions to observe. `replaced_functions` replaces and restores their code, and `calls` has
the functions that the new code calls. `intercept/acts/flow_steps.py` decides what is recorded.
"""
