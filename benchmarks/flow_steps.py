"""What a flow step costs: a model of nothing but tests and loops, without a proxy, and with `flow` off and on in turn.

    python benchmarks/flow_steps.py

CPU time of the process, the least of so many rounds, so that the thread that writes counts as well.
"""

from __future__ import annotations

import tempfile
import time

import torch
from torch import nn

import proxy_wrapper.proxy as Proxy

ROUNDS = 7
TESTS, LOOPS = 2000, 500


class Tests(nn.Module):
    """Counts up, then goes through loops of one element."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return `x` after `TESTS` tests and `LOOPS` loops, and one of each around them."""
        n = 0
        while n < TESTS:
            n += 1
        for _ in range(LOOPS):
            for _ in (1,):
                pass
        return x


def cpu_seconds(model: nn.Module, x: torch.Tensor) -> float:
    """The CPU time of one call, including writing its records."""
    began = time.process_time()
    model(x)
    Proxy.flush()
    return time.process_time() - began


def main() -> None:
    """Print the cost of a step, and what a call costs with `flow` off."""
    model, x = Tests(), torch.ones(2)
    plain = min(cpu_seconds(model, x) for _ in range(ROUNDS))
    with tempfile.TemporaryDirectory() as folder:
        Proxy.Proxy(model, recurse=True, logdir=folder)
        off, on = [], []
        for _ in range(ROUNDS):
            Proxy.Proxy(model, flow=False)
            off.append(cpu_seconds(model, x))
            Proxy.Proxy(model, flow=True)
            on.append(cpu_seconds(model, x))
        Proxy.unproxy(model)
    steps = TESTS + LOOPS + 2
    print(f"a call without a proxy {plain * 1e3:.3f} ms, with flow off {min(off) * 1e3:.3f} ms")
    print(f"a step {(min(on) - min(off)) / steps * 1e6:.2f} us, the writing of its record included")


if __name__ == "__main__":
    main()
