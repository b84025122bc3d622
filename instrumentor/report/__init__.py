"""What the command shows instead of writing files."""
