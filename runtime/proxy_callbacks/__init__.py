"""Callbacks that trace the model trained by a library's trainer: one for Lightning, one for transformers.

from proxy_callbacks.lightning import TraceCallback
from proxy_callbacks.transformers import TraceCallback
"""
