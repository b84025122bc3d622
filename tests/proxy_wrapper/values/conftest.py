"""The compiled library, for tests that are to read tensors both ways: by it, and by torch's functions."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from proxy_wrapper.values import extents
from proxy_wrapper.values.one_pass import OnePass, load
from scripts.compile_one_pass import SOURCE, compile_one_pass

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the library that was built with the package, or else of one that is compiled now."""
    if load() is not None:
        return SOURCE.parent
    folder = tmp_path_factory.mktemp("native")
    shutil.copy(SOURCE, folder)
    if compile_one_pass(folder) is None:
        pytest.skip("no C compiler")
    return folder


@pytest.fixture(scope="session")
def one_pass(native: Path) -> OnePass:
    """The library."""
    found = load(native)
    assert found is not None
    return found


@pytest.fixture(params=["one pass", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The way by which tensors on the CPU are read in this test."""
    library = request.getfixturevalue("one_pass") if request.param == "one pass" else None
    monkeypatch.setattr(extents, "library", library)
    return str(request.param)
