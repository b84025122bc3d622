"""Each test leaves nothing bent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import proxy_wrapper.proxy as Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _nothing_stays_bent(_fresh: None) -> Iterator[None]:
    yield
    tracer = Proxy._installed.tracer
    assert tracer is None or (tracer._changes, tracer._live_blocks, tracer.thread.change) == (0, 0, None)
