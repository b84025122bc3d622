"""Single records as text."""
