"""Callbacks that trace what a library's trainer trains: one for Lightning, one for transformers.

from proxy_callbacks.lightning import TraceCallback
from proxy_callbacks.transformers import TraceCallback
"""
