"""Errors of bending: one class for each mistake a caller of `bend` can make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_views.errors import ViewError

if TYPE_CHECKING:
    from collections.abc import Sequence


class BendingError(ViewError):
    """The base of all errors of bending."""


class NoTargetError(BendingError, LookupError):
    """A target matches nothing in the model."""

    def __init__(self, target: str, model: str, near: Sequence[str], *, after_call: bool = False) -> None:
        when = ", and nothing that its call computed" if after_call else ", and no torch function has that name"
        message = f"the target {target!r} matches no module or parameter of {model} by its full name{when}."
        if near:
            message += f" Did you mean {' or '.join(map(repr, near))}?"
        super().__init__(message)


class TargetPatternError(BendingError, ValueError):
    """A target is not a valid regular expression."""

    def __init__(self, target: str, why: str) -> None:
        super().__init__(f"the target {target!r} is not a regular expression: {why}.")


class NoMethodError(BendingError, AttributeError):
    """A target is in a method whose calls cannot be observed."""

    def __init__(self, target: str, method: str, model: str) -> None:
        super().__init__(
            f"the target {target!r} is in a method {method!r}, but {model} has no Python method of that name. "
            "Use `method:name` for a method of the model, or `name` for all methods."
        )


class KindError(BendingError, ValueError):
    """There is no such kind of target."""

    def __init__(self, kind: object) -> None:
        super().__init__(f'kind={kind!r}: use "module", "parameter" or "activation", or omit it.')


class NotBendableError(BendingError, TypeError):
    """An argument for bending has the wrong type."""

    def __init__(self, argument: str, value: object, wanted: str) -> None:
        super().__init__(f"{argument}: expected {wanted}, but received a {type(value).__name__}.")


class ScriptedError(BendingError, NotImplementedError):
    """The parameter belongs to TorchScript, whose torch calls cannot be observed."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r} belongs to a TorchScript module, whose inside cannot be observed. Bend the output of the "
            "module, or the module that it was scripted from."
        )


class SettingError(BendingError, ValueError):
    """A setting is out of range."""

    def __init__(self, name: str, value: object, wanted: str) -> None:
        super().__init__(f"{name}={value!r}: expected {wanted}.")


class ResultError(BendingError, ValueError):
    """A callback returned something that cannot replace its argument."""

    def __init__(self, callback: str, place: str, problem: str) -> None:
        super().__init__(f"{callback} at {place!r} {problem}")


class OtherShapeError(BendingError, ValueError):
    """A callback drew values for one shape, and was called with another."""

    def __init__(self, callback: str, place: str, drawn: Sequence[int], given: Sequence[int]) -> None:
        super().__init__(
            f"{callback} was drawn for the shape {tuple(drawn)} at {place!r}, but the value now has the shape "
            f"{tuple(given)}. Use `dim=` to draw along one dimension only, whatever the others are."
        )


class CallbackError(BendingError, RuntimeError):
    """A callback raised an exception, which is the cause of this one."""

    def __init__(self, callback: str, place: str, error: BaseException) -> None:
        super().__init__(f"{callback} at {place!r} raised {type(error).__name__}: {error}")


class ChangedWeightError(BendingError, RuntimeError):
    """A changed value cannot take the place of the original."""

    def __init__(self, place: str) -> None:
        super().__init__(f"{place!r} is changed in place by the model, so its replacement must have the same shape.")


class ConfigurationError(BendingError, ValueError):
    """A configuration cannot be saved, read or used."""


class VersionError(BendingError, LookupError):
    """A version of a model does not exist, already exists, or does not fit."""
