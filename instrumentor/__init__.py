"""Rewrites PyTorch scripts: puts their models under a tracing proxy and changes nothing else."""

__version__ = "0.1.0"
