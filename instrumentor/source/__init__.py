"""A script's bytes: as text and lines, what is inserted into them, and how it comes out again."""
