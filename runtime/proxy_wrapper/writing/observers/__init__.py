"""One module for each thing done with events. They know no torch hook."""
