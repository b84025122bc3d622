"""Errors of callers of the runtime, one class for each mistake. No other error of it reaches a traced program."""

from __future__ import annotations


class ProxyError(Exception):
    """The base of all errors that the runtime raises."""


class UnknownLevelError(ProxyError, ValueError):
    """There is no such level."""

    def __init__(self, level: object, known: list[str]) -> None:
        super().__init__(f"log_level={level!r} is no level of tracing; give one of {', '.join(known)}.")


class SettingsTypeError(ProxyError, TypeError):
    """An argument of `Proxy` has the wrong type."""

    def __init__(self, argument: str, value: object, wanted: str) -> None:
        super().__init__(
            f"{argument}={value!r} is a {type(value).__name__}; `Proxy` wants {wanted} there. "
            f"Did you mean to give it by keyword?"
        )


class SettingsNameError(ProxyError, TypeError):
    """`Proxy` has no such argument."""

    def __init__(self, argument: str, nearest: str, known: list[str]) -> None:
        advice = f"Did you mean `{nearest}`?" if nearest else f"It has {', '.join(known)}."
        super().__init__(f"`Proxy` has no argument `{argument}`. {advice}")


class SettingsValueError(ProxyError, ValueError):
    """An argument of `Proxy` has an invalid value."""

    def __init__(self, argument: str, value: object, wanted: str) -> None:
        super().__init__(f"{argument}={value!r}: `Proxy` wants {wanted} there.")
