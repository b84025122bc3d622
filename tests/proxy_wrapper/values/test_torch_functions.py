"""What the runtime computes does not pass through functions that the program has put in the place of torch's."""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

import proxy_wrapper.proxy as Proxy
from tests.proxy_wrapper.programs import Branching, train

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

NAMES = (
    *("sum", "item", "tolist", "to", "view", "numel", "data_ptr", "is_floating_point", "is_complex", "is_contiguous"),
    *("amin", "amax", "aminmax", "isfinite", "stack", "_foreach_norm"),
)


def counting(counts: Counter[str], name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def count(*args: Any, **kwargs: Any) -> Any:
        counts[name] += 1
        return original(*args, **kwargs)

    return count


def test_calls_that_the_program_counts_are_its_own(level: str, logdir: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()
    for owner in (torch.Tensor, torch):
        for name in NAMES:
            if hasattr(owner, name):
                monkeypatch.setattr(owner, name, counting(counts, name, getattr(owner, name)))

    def run(model: Any) -> Any:
        torch.manual_seed(0)
        counts.clear()
        train(model)
        with torch.no_grad():
            model.head.weight[0] = torch.inf
        train(model)
        return Counter(counts)

    plain = run(Branching())
    assert run(Proxy.Proxy(Branching(), recurse=True, logdir=logdir, log_level=level)) == plain
