"""Sinks for the records of a trace, one module for each format."""
