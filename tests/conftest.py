"""Skips what needs a device that is not there."""

from __future__ import annotations

import pytest


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cuda") is None:
        return
    import torch  # Not above: tests of the rewriter do without.

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
