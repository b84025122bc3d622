"""What is looked for in the graph of a loss, and in the code around it, when a backward pass begins."""
