"""Measures what it takes to read a tensor: minimum, maximum, norm, non-finite count and fingerprint.

    python benchmarks/read_tensors.py

For tensors of float32, alone and many together: CPU time by the compiled library and by torch's functions, on one
thread. The fastest of many rounds counts. Sizes up to 2**18 elements are in the cache; of
larger ones there are so many that each is read from memory.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import torch

from proxy_wrapper.values import extents
from proxy_wrapper.values.statistics import summarize, unobserved

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES = (16, 1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22)
FROM_MEMORY = 1 << 24
"""So many elements in all are read anew from memory: 64 MB."""


def us_per_tensor(tensors: Sequence[torch.Tensor], together: int, rounds: int) -> float:
    """CPU time per tensor, with `together` of them read at once."""
    fastest = float("inf")
    with unobserved():
        for _ in range(rounds):
            began = time.thread_time_ns()
            for first in range(0, len(tensors), together):
                summarize(tensors[first : first + together])
            fastest = min(fastest, time.thread_time_ns() - began)
    return fastest / len(tensors) / 1000


def main() -> int:
    """Print the table; the exit code is 1 if there is no library to measure."""
    torch.set_num_threads(1)
    if not extents.is_compiled():
        print("one_pass.c is not compiled: python scripts/compile_one_pass.py", file=sys.stderr)
        return 1
    module: dict[str, Any] = vars(extents)
    print("| elements | library, alone | together | torch's functions | library, us a million |\n|" + " --- |" * 5)
    for size in SIZES:
        count = 64 if size <= 1 << 14 else max(1, FROM_MEMORY // size) if size > 1 << 18 else 1
        tensors = [torch.randn(size) for _ in range(count)]
        rounds = 100 if size < 1 << 18 else 15
        alone, together = us_per_tensor(tensors, 1, rounds), us_per_tensor(tensors, count, rounds)
        library, module["library"] = module["library"], None
        by_torch = us_per_tensor(tensors, 1, rounds)
        module["library"] = library
        print(f"| {size:,} | {alone:.1f} us | {together:.1f} us | {by_torch:.1f} us | {alone / size * 1e6:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
