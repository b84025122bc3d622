"""One module for each way of seeing what a program does. They make events; they know no observer."""
