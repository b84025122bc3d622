"""Reading traces: files, records, names, and choices among them."""
