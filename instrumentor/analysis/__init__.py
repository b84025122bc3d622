"""Which modules a script makes, and which of its names hold the same one."""
