"""`python -m proxy_trace`: the `proxy-trace` command."""

from __future__ import annotations

from proxy_trace.cli import main

if __name__ == "__main__":
    main()
