"""Classes that intern their instances."""

from __future__ import annotations

from typing import Any
from weakref import KeyedRef


class Interned(type):
    """A class whose instances with equal parts are identical.

    They hash and compare by identity, because an analysis does little else with them. Those no longer referenced are
    released.
    """

    def __init__(cls, *arguments: Any) -> None:
        super().__init__(*arguments)
        cls._made: dict[tuple[Any, ...], KeyedRef[tuple[Any, ...], Any]] = {}

    def __call__(cls, *parts: Any) -> Any:
        """The instance with some parts, all of which must be given by position."""
        known = cls._made.get(parts)
        made = None if known is None else known()
        if made is None:
            made = super().__call__(*parts)
            cls._made[parts] = KeyedRef(made, cls._forget, parts)
        return made

    def _forget(cls, gone: KeyedRef[tuple[Any, ...], Any]) -> None:
        if cls._made.get(gone.key) is gone:
            del cls._made[gone.key]
