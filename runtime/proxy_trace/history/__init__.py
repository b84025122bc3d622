"""The history of one variable."""
