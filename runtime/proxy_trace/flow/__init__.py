"""Which way a program went: flow steps, and where two runs part."""
