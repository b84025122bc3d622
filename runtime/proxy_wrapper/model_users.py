"""Which thread uses which model."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container

    from proxy_wrapper.registry import ModuleEntry


class ModelUsers:
    """Tells for the length of one look which models are those of another thread, which still runs."""

    def __init__(self) -> None:
        self._this = threading.get_ident()
        self._living: Container[int] | None = None

    def has_another(self, entry: ModuleEntry) -> bool:
        """Whether another thread was the last to use the model that `entry` is part of."""
        user = entry.top.user
        if user in (0, self._this):
            return False
        if self._living is None:
            self._living = sys._current_frames().keys()
        return user in self._living
