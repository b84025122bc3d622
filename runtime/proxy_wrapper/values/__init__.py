"""What is recorded of values: descriptions, extents, fingerprints."""
