"""The meaning of names: imports, the project's other files, and a catalogue of library names."""
