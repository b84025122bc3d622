"""What instrumented scripts import. `proxy_wrapper.proxy` is the module that scripts use.

This file imports nothing, so that `proxy_wrapper.events` can be read without torch.
"""

__version__ = "0.1.0"
