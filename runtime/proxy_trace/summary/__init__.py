"""What happened in a run, with what looks wrong; for people and for programs."""
