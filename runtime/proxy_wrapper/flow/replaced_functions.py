"""Functions whose code has been replaced, to be given back."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from types import CodeType, FunctionType


class ReplacedFunctions:
    """Gives functions other code, and takes it away again. What runs meanwhile goes on with the code it began with.

    It keeps no function alive: one may hold tensors.
    """

    def __init__(self) -> None:
        self._replaced: WeakKeyDictionary[FunctionType, tuple[CodeType, CodeType]] = WeakKeyDictionary()

    def __contains__(self, function: FunctionType) -> bool:
        return function in self._replaced

    def __bool__(self) -> bool:
        return bool(self._replaced)

    def replace(self, function: FunctionType, code: CodeType) -> None:
        """Let `function` run `code` from its next call on."""
        self._replaced[function] = (function.__code__, code)
        function.__code__ = code

    def put_back(self) -> None:
        """Let all functions run their own code, but those that somebody else has given another since."""
        while self._replaced:
            function, (original, code) = self._replaced.popitem()
            if function.__code__ is code:
                function.__code__ = original
