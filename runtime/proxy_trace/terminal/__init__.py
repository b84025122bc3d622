"""Text for a terminal: colours, tables, units, widths, progress."""
