"""Calls of modules and of functions of torch."""
