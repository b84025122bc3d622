"""Tells of most scripts that nothing in them is to be wrapped, without analysing what they call."""
