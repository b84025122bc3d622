"""Classes that make each of their instances once."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary


class Interned(type):
    """A class whose instances are the very same where they are made of the same.

    They hash and compare by what they are, not by what they hold: an analysis does hardly anything else with them. What
    nothing holds any more is forgotten.
    """

    def __init__(cls, *arguments: Any) -> None:
        super().__init__(*arguments)
        cls._made: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()

    def __call__(cls, *parts: Any) -> Any:
        """The instance that is made of some parts, all of which are to be given, by position."""
        made = cls._made.get(parts)
        if made is None:
            made = cls._made.setdefault(parts, super().__call__(*parts))
        return made
