"""Observers of events, one to a module. They know nothing of torch's hooks."""
