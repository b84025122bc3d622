"""Flow steps: code that tells how each of its tests came out and how often each of its loops ran.

`observed_code` compiles a file anew with its tests observed, `source_file` finds there the code of a function that
runs, `reachable` says which functions that concerns, `replaced_functions` gives them that code and takes it away
again, and `calls` is what the new code calls. What is recorded is decided in `intercept/flow_steps.py`.
"""
