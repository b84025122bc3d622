"""Errors of the profiler's callers, one class each."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from proxy_wrapper.errors import ProxyError

if TYPE_CHECKING:
    from collections.abc import Iterable


class ProfileError(ProxyError):
    """The base of all errors of profiles."""


class ConventionError(ProfileError, ValueError):
    """An unknown convention for counting FLOPs."""

    def __init__(self, given: object) -> None:
        super().__init__(f'flops={given!r} is not a convention for FLOPs: use "torch", "corrected" or "siu".')


class DeviceError(ProfileError, ValueError):
    """A rate that is not positive."""

    def __init__(self, name: str, rate: float) -> None:
        super().__init__(f"Device({name}={rate!r}): a rate must be greater than 0.")


class PlainFunctionError(ProfileError, TypeError):
    """A registered function whose calls cannot be observed."""

    def __init__(self, function: object) -> None:
        super().__init__(
            f"{function!r} is not a plain Python function, so its calls cannot be observed. Operators are registered "
            "with `torch.utils.flop_counter.register_flop_formula` and `torch.library.register_fake`; for other "
            "callables, register a Python function that calls them."
        )


class FlopImplementationError(ProfileError, TypeError):
    """A registered FLOP implementation that did not return a pair of integers."""

    def __init__(self, function: Any, given: object) -> None:
        super().__init__(
            f"the FLOPs registered for {function.__qualname__} are {given!r}; expected two integers, for the forward "
            "and the backward pass."
        )


class StillProfilingError(ProfileError, RuntimeError):
    """A profile that was requested before its block has ended."""

    def __init__(self) -> None:
        super().__init__("the profiled block has not ended; ask for its profile after the block.")


class UnknownRowError(ProfileError, KeyError):
    """A name without a row in a profile."""

    def __init__(self, name: str, names: Iterable[str]) -> None:
        near = difflib.get_close_matches(name, names, n=2)
        self._message = f"the profile has no row {name!r}."
        if near:
            self._message += f" Did you mean {' or '.join(map(repr, near))}?"
        super().__init__(self._message)

    def __str__(self) -> str:
        return self._message
