"""What runs in a program that `instrument run` has started: it puts right what Python could not know."""
