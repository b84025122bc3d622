"""Where the records of a trace go: one module for each form."""
