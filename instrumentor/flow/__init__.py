"""Where values go: what may be called where, what calls may make, and what is used as modules are."""
