"""What instrumented scripts import. `proxy_wrapper.proxy` is the module that scripts use.

This file imports nothing, so that `proxy_wrapper.events` can be read without torch.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"


def load_ipython_extension(ipython: Any) -> None:
    """Let cells of a notebook begin with `%%trace`: what `%load_ext proxy_wrapper` calls."""
    from proxy_wrapper.notebooks import install

    install(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """Take that back: what `%unload_ext proxy_wrapper` calls."""
    from proxy_wrapper.notebooks import remove

    remove(ipython)
