"""Views of a run that need the values themselves: a graph, activations, sizes. `Proxy.trace` loads them when called."""
