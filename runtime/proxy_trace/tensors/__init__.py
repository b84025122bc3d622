"""What the records say of tensors: what made each, and whether values are the same."""
