"""Names across files: where imports lead, and which classes are above and below each other."""
