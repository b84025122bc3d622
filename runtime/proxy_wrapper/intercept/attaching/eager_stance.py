"""Runs compiled code eagerly: what is compiled can be neither observed nor changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy_wrapper.process.after_import import AfterImport

if TYPE_CHECKING:
    from types import ModuleType


class EagerStance:
    """Dynamo's stance "force_eager", set now or when the program loads Dynamo."""

    def __init__(self) -> None:
        self._stance: Any = None
        self._waiting: AfterImport | None = AfterImport("torch._dynamo.polyfills.loader", self._take)

    def _take(self, _: ModuleType) -> None:
        from torch._dynamo.decorators import set_stance

        self._stance = set_stance("force_eager")

    def end(self) -> None:
        """Restore the previous stance."""
        if self._waiting is not None:
            self._waiting.give_up()
            self._waiting = None
        if self._stance is not None:
            self._stance.__exit__(None, None, None)
            self._stance = None
