"""The late device, for tests that run in a process of their own (see `test_late_device.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import proxy_wrapper.proxy as Proxy
from tests.devices.late.device import register

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.devices.late.device import LateDevice


@pytest.fixture(scope="session")
def registered() -> LateDevice:
    return register()


@pytest.fixture(autouse=True)
def late(registered: LateDevice) -> Iterator[LateDevice]:
    """The device, with nothing to do and nothing counted."""
    torch.set_num_threads(1)
    registered.recover()
    yield registered
    Proxy._installed.take_down()
    registered.recover()


@pytest.fixture(params=["INFO", "DEBUG"])
def level(request: pytest.FixtureRequest) -> str:
    return str(request.param)
