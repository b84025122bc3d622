"""Shows for most scripts that there is nothing to wrap, without analysing what they call."""
