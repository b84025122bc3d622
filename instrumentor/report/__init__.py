"""Reports, diffs and tables of what the command did or would do."""
