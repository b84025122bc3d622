"""Functions whose code has been replaced, and will be restored."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from types import CodeType, FunctionType


class ReplacedFunctions:
    """Replaces and restores the code of functions. Running calls continue with the code they began with.

    It keeps no function alive, because one may hold tensors.
    """

    def __init__(self) -> None:
        self._replaced: WeakKeyDictionary[FunctionType, tuple[CodeType, CodeType]] = WeakKeyDictionary()

    def __contains__(self, function: FunctionType) -> bool:
        return function in self._replaced

    def __bool__(self) -> bool:
        return bool(self._replaced)

    def replace(self, function: FunctionType, code: CodeType) -> None:
        """Make `function` run `code` from its next call on."""
        self._replaced[function] = (function.__code__, code)
        function.__code__ = code

    def put_back(self) -> None:
        """Restore the code of all functions, except those whose code something else has replaced since."""
        while self._replaced:
            function, (original, code) = self._replaced.popitem()
            if function.__code__ is code:
                function.__code__ = original
