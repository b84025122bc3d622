"""Each test starts and ends without a tracer, and leaves torch as it found it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import proxy_wrapper.proxy as Proxy
from proxy_wrapper.writing.observers.memory import MemoryObserver
from tests.proxy_wrapper.global_hooks import has_module_hooks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_tracer_is_left() -> Iterator[None]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    Proxy._installed.take_down()
    assert torch._C._len_torch_function_stack() == 0
    assert not has_module_hooks()


@pytest.fixture
def logdir(tmp_path: Path) -> str:
    return str(tmp_path / "trace")


@pytest.fixture
def seen(logdir: str) -> MemoryObserver:
    """Every event of the test, in order."""
    observer = MemoryObserver()
    Proxy.observe(observer)
    return observer


@pytest.fixture(params=["INFO", "DEBUG"])
def level(request: pytest.FixtureRequest) -> str:
    return str(request.param)
