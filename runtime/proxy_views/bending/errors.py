"""What a caller of `bend` can get wrong, one class each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_views.errors import ViewError

if TYPE_CHECKING:
    from collections.abc import Sequence


class BendingError(ViewError):
    """The base of all errors of bending."""


class NoTargetError(BendingError, LookupError):
    """A target that names nothing of the model."""

    def __init__(self, target: str, model: str, near: Sequence[str], *, after_call: bool = False) -> None:
        when = ", nor anything that its call has computed" if after_call else ", and no function of torch is called so"
        message = f"the target {target!r} matches no module and no parameter of {model} as a whole{when}."
        if near:
            message += f" Did you mean {' or '.join(map(repr, near))}?"
        super().__init__(message)


class TargetPatternError(BendingError, ValueError):
    """A target that is no regular expression."""

    def __init__(self, target: str, why: str) -> None:
        super().__init__(f"the target {target!r} is no regular expression: {why}.")


class NoMethodError(BendingError, AttributeError):
    """A target in a method whose calls cannot be seen."""

    def __init__(self, target: str, method: str, model: str) -> None:
        super().__init__(
            f"the target {target!r} is in a method {method!r}, and {model} has no method of that name that is written "
            "in Python. Give `method:name` for a method of the model, or `name` for all of them."
        )


class KindError(BendingError, ValueError):
    """A kind of target that there is not."""

    def __init__(self, kind: object) -> None:
        super().__init__(f'kind={kind!r}: give "module", "parameter" or "activation", or leave it out.')


class NotBendableError(BendingError, TypeError):
    """Something to bend, or to bend with, that is of the wrong type."""

    def __init__(self, argument: str, value: object, wanted: str) -> None:
        super().__init__(f"{argument}: {wanted} is wanted there, and a {type(value).__name__} was given.")


class ScriptedError(BendingError, NotImplementedError):
    """A parameter of TorchScript, whose calls of torch cannot be seen."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r} belongs to a TorchScript module, inside which nothing can be seen. Bend what the module gives "
            "back, or the module that it was scripted from."
        )


class SettingError(BendingError, ValueError):
    """A number that is out of range."""

    def __init__(self, name: str, value: object, wanted: str) -> None:
        super().__init__(f"{name}={value!r}: {wanted} is wanted there.")


class ResultError(BendingError, ValueError):
    """A callback that gave something that cannot stand in the place of what it was given."""

    def __init__(self, callback: str, place: str, problem: str) -> None:
        super().__init__(f"{callback} at {place!r} {problem}")


class OtherShapeError(BendingError, ValueError):
    """A callback that has drawn something for one shape, and was given another."""

    def __init__(self, callback: str, place: str, drawn: Sequence[int], given: Sequence[int]) -> None:
        super().__init__(
            f"{callback} was drawn for the shape {tuple(drawn)} at {place!r}, where there is now a value of the shape "
            f"{tuple(given)}. Give `dim=` to draw along one dimension only, whatever the others are."
        )


class CallbackError(BendingError, RuntimeError):
    """A callback that raised an exception, which is the cause of this one."""

    def __init__(self, callback: str, place: str, error: BaseException) -> None:
        super().__init__(f"{callback} at {place!r} raised {type(error).__name__}: {error}")


class ChangedWeightError(BendingError, RuntimeError):
    """A change in the place of a value that cannot take it."""

    def __init__(self, place: str) -> None:
        super().__init__(f"{place!r} is changed in place by the model, so what is put there must have its shape.")


class ConfigurationError(BendingError, ValueError):
    """A configuration that cannot be saved, read or used."""


class VersionError(BendingError, LookupError):
    """A version of a model that there is not, or that does not fit."""
