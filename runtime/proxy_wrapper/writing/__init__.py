"""How events become a trace: channels, sinks, observers."""
