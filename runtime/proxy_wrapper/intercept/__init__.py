"""One module per way to observe a program. Each creates events; none knows an observer."""
