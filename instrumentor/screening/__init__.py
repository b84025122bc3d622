"""Tells of most library files that nothing in them is to be wrapped, without analysing what they call."""
