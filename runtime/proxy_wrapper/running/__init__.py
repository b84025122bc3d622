"""Code that runs inside a program started by `instrument run`, and corrects what Python could not know."""
