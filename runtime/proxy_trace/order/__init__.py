"""The order in which a call of a model ran its modules and used its parameters."""
