"""A script's source: decoding, insertions, and their removal."""
