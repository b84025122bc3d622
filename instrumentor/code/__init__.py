"""Reads each file once: its source to facts that need no tree, and the store in which facts are kept."""
