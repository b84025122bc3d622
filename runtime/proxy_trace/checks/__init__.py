"""What `proxy-trace summary` looks for in a run: one module for each check, all fed by one pass over the trace."""
