"""The checks of `proxy-trace summary`: one module per check, all fed by one pass over the trace."""
