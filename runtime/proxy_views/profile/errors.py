"""What a caller of the profiler can get wrong, one class each."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from proxy_wrapper.errors import ProxyError

if TYPE_CHECKING:
    from collections.abc import Iterable


class ProfileError(ProxyError):
    """The base of all errors of profiles."""


class ConventionError(ProfileError, ValueError):
    """A way to count FLOPs that there is not."""

    def __init__(self, given: object) -> None:
        super().__init__(f'flops={given!r}: FLOPs are counted as "torch", "corrected" or "siu" does it.')


class DeviceError(ProfileError, ValueError):
    """A rate at which nothing can be computed."""

    def __init__(self, name: str, rate: float) -> None:
        super().__init__(f"Device({name}={rate!r}): a rate is a number above 0.")


class PlainFunctionError(ProfileError, TypeError):
    """A function whose calls cannot be seen, given to be registered."""

    def __init__(self, function: object) -> None:
        super().__init__(
            f"{function!r} is no plain Python function, so its calls cannot be seen as such. Operators are registered "
            "with `torch.utils.flop_counter.register_flop_formula` and `torch.library.register_fake`; for other "
            "callables, register a Python function that calls them."
        )


class FlopImplementationError(ProfileError, TypeError):
    """What a function that was registered to count FLOPs gave back, when that is no pair of numbers."""

    def __init__(self, function: Any, given: object) -> None:
        super().__init__(
            f"the FLOPs registered for {function.__qualname__} came out as {given!r}; wanted are two whole numbers, of "
            "the forward and of the backward pass."
        )


class StillProfilingError(ProfileError, RuntimeError):
    """A profile that was asked for before its block has ended."""

    def __init__(self) -> None:
        super().__init__("the block that is profiled has not ended; ask for its profile behind it.")


class UnknownRowError(ProfileError, KeyError):
    """A name that no row of a profile has."""

    def __init__(self, name: str, names: Iterable[str]) -> None:
        near = difflib.get_close_matches(name, names, n=2)
        self._message = f"the profile has no row {name!r}."
        if near:
            self._message += f" Did you mean {' or '.join(map(repr, near))}?"
        super().__init__(self._message)

    def __str__(self) -> str:
        return self._message
