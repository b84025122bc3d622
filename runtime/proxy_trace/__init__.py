"""Reads what `proxy_wrapper` wrote, without torch.

from proxy_trace import open_trace

trace = open_trace("proxy_trace")
for entry in trace.history("model.fc.weight"):
    print(entry.step, entry.kind, entry.statistics)
"""

from proxy_trace.open_trace import OpenTrace, open_trace

__all__ = ["OpenTrace", "open_trace"]
