"""What a name stands for: imports, the project's other files, and a catalogue of the libraries' names."""
