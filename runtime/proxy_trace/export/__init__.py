"""Exports a trace to the formats of other tools, one module each."""
