"""Traces of processes that ended in an orderly way."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.proxy_trace.conftest import WriteTrace


@pytest.fixture
def write_trace(write_trace: WriteTrace) -> WriteTrace:
    """Writes the traces of processes that ended in an orderly way."""
    return partial(write_trace, ends=True)
