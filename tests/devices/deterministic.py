"""Runs a script so that it computes the same each time, on a GPU too, and in mixed precision if asked for.

    python deterministic.py cuda bfloat16 mnist.py --epochs 1

As a module it has what a test needs for the same.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import warnings
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """Let torch take kernels that give the same each time, where there are any.

    It only warns of those for which there are none: they add up in whatever order the threads of a GPU come.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def main() -> None:
    """Run the script that the command line names."""
    device, dtype, script, *arguments = sys.argv[1:]
    sys.argv = [script, *arguments]
    warnings.simplefilter("ignore")  # What torch warns of, it warns of with a line of the script.
    precision = contextlib.nullcontext() if dtype == "float32" else torch.autocast(device, getattr(torch, dtype))
    with deterministic(), precision:
        runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
