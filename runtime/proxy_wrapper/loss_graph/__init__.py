"""What the autograd graph of a loss tells: how the loss is computed, and patterns in it that cannot be intended.

Reading a graph neither creates nor changes a node.
"""
