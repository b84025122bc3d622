"""Reads what `proxy_wrapper` wrote, without torch."""
