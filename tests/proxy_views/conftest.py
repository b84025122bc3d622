"""Leaves nothing of one test to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import proxy_wrapper.proxy as Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    Proxy._installed.take_down()
