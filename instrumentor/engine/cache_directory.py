"""The location of this tool's caches."""

from __future__ import annotations

import os
import sys
from pathlib import Path

VARIABLE = "INSTRUMENT_CACHE_DIR"


def cache_directory() -> Path:
    """The folder of this tool's caches: $INSTRUMENT_CACHE_DIR, or the system's cache folder."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
        return base / "instrumentor" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "instrumentor"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "instrumentor"
