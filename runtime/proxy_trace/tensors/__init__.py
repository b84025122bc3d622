"""What records say about tensors: their origins, and whether values are equal."""
