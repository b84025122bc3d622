"""Many scripts: the unit of work, where the units run, and what is kept of them between runs."""
