"""Which scripts are meant, and how they are read and written."""
