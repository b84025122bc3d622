"""Bends that can be saved, compared and applied to a model again."""

from __future__ import annotations

import contextlib
import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_views.bending.affine import Affine, Bias, Scale
from proxy_views.bending.callback import Callback, Chain
from proxy_views.bending.capture import Capture
from proxy_views.bending.errors import BendingError, ConfigurationError, NotBendableError, SettingError
from proxy_views.bending.handle import Handle, bend
from proxy_views.bending.masks import Mask, OrderedMask, ThresholdActivation
from proxy_views.bending.noise import Normal, Permute
from proxy_views.bending.parameter import Arithmetic, BendingParameter
from proxy_views.bending.targets import KINDS, parse_targets

if TYPE_CHECKING:
    import os

    from torch import nn
    from typing_extensions import Self

_FORMAT: Final = 1
_KNOWN: Final[dict[str, type[Callback]]] = {
    each.__name__: each
    for each in (Affine, Bias, Capture, Mask, Normal, OrderedMask, Permute, Scale, ThresholdActivation)
}


class BendingRule(NamedTuple):
    """One bend of a configuration: the arguments of `bend` except the model."""

    targets: tuple[str, ...]
    callback: Callback
    kind: str | None


class BendingConfig:
    """Bends in order, not bound to a model.

        config = BendingConfig(("conv", Scale(2.0)), (["head", "neck"], Mask(0.3, seed=1)))
        with config.bind(model):
            model(x)
        config.save("bends.json")

    Attributes:
        rules: the bends.
    """

    def __init__(self, *rules: tuple[Any, ...]) -> None:
        """Take bends in the form (targets, callback) or (targets, callback, kind).

        Raises:
            BendingError: if one has another form, or if two parameters have the same name.
        """
        self.rules = tuple(_rule(each) for each in rules)
        self.parameters()

    def parameters(self) -> dict[str, BendingParameter]:
        """The bending parameters in use, by name.

        Raises:
            ConfigurationError: if two have the same name.
        """
        found: dict[str, BendingParameter] = {}
        for rule in self.rules:
            for each in rule.callback.parameters():
                if found.setdefault(each.name, each) is not each:
                    raise ConfigurationError(
                        f"two bending parameters are named {each.name!r}; use one of them in both places, or rename "
                        "the other."
                    )
        return found

    def update(self, name: str, value: float) -> None:
        """Set the bending parameter `name` to `value`.

        Raises:
            ConfigurationError: if there is no parameter of that name.
            SettingError: if `value` is out of range.
        """
        parameters = self.parameters()
        if name not in parameters:
            known = ", ".join(parameters) or "none"
            raise ConfigurationError(f"the configuration has no bending parameter {name!r}, only {known}.")
        parameters[name].update(value)

    def bind(self, model: nn.Module) -> BoundConfig:
        """Apply all bends to `model`. If one of them does not fit, none is applied.

        Raises:
            BendingError: if a target matches nothing in the model.
        """
        handles: list[Handle] = []
        try:
            for rule in self.rules:
                handles.append(bend(model, rule.targets, rule.callback, kind=rule.kind))  # noqa: PERF401
        except BaseException:
            for handle in handles:
                handle.remove()
            raise
        return BoundConfig(tuple(handles))

    def __add__(self, other: BendingConfig) -> BendingConfig:
        if not isinstance(other, BendingConfig):
            return NotImplemented
        return BendingConfig(*self.rules, *other.rules)

    def __eq__(self, other: object) -> bool:
        return self.rules == other.rules if isinstance(other, BendingConfig) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # Callbacks are mutable.

    def __len__(self) -> int:
        return len(self.rules)

    def __repr__(self) -> str:
        return f"BendingConfig({', '.join(repr(tuple(each)) for each in self.rules)})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON.

        Raises:
            ConfigurationError: if a callback cannot be saved: a `Lambda`, or a custom one.
        """
        parameters = self.parameters().values()
        content = {
            "format": _FORMAT,
            "parameters": [{"name": each.name, "value": each.value, "range": each.range} for each in parameters],
            "bends": [
                {"targets": rule.targets, "kind": rule.kind, "callback": _to_json(rule.callback)} for rule in self.rules
            ],
        }
        Path(path).write_text(json.dumps(content, indent=2) + "\n", "utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BendingConfig:
        """Read a file written by `save`.

        Raises:
            OSError: if the file cannot be read.
            ConfigurationError: if it is not a configuration, or one of another format.
        """
        try:
            content = json.loads(Path(path).read_text("utf-8"))
        except ValueError as error:
            raise ConfigurationError(f"{path} is not JSON: {error}.") from error
        written = content.get("format") if isinstance(content, dict) else None
        if written != _FORMAT:
            raise ConfigurationError(f"{path} is not a configuration of format {_FORMAT}: its `format` is {written!r}.")
        try:
            parameters = {
                each["name"]: BendingParameter(each["name"], each["value"], _range(each["range"]))
                for each in content["parameters"]
            }
            return cls(
                *(
                    (each["targets"], _from_json(each["callback"], parameters), each["kind"])
                    for each in content["bends"]
                )
            )
        except BendingError as error:
            raise ConfigurationError(f"{path}: {error}") from error
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(
                f"{path} is not a configuration of bends: {type(error).__name__} {error}."
            ) from error


class BoundConfig:
    """A configuration applied to a model.

    Attributes:
        handles: one for each bend.
    """

    def __init__(self, handles: tuple[Handle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Remove all bends."""
        with contextlib.ExitStack() as stack:
            for handle in self.handles:
                stack.callback(handle.remove)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def _rule(given: Any) -> BendingRule:
    if not isinstance(given, tuple) or len(given) not in (2, 3) or not isinstance(given[1], Callback):
        raise NotBendableError("a bend", given, "(targets, callback) or (targets, callback, kind)")
    kind = given[2] if len(given) == 3 else None
    if kind is not None and kind not in KINDS:
        raise SettingError("kind", kind, f"one of {', '.join(KINDS)}")
    return BendingRule(parse_targets(given[0]), given[1], kind)


def _range(given: Any) -> tuple[float, float] | None:
    return None if given is None else (given[0], given[1])


def _to_json(value: Any) -> Any:
    if isinstance(value, BendingParameter):
        return {"parameter": value.name}
    if isinstance(value, Arithmetic):
        return {"operation": value.operation, "operands": [_to_json(each) for each in value.operands]}
    if isinstance(value, Chain):
        return {"chain": [_to_json(each) for each in value.callbacks]}
    if isinstance(value, Callback):
        name = type(value).__name__
        if _KNOWN.get(name) is not type(value):
            raise ConfigurationError(
                f"{value!r} cannot be saved: it runs code of the program, which a configuration cannot contain."
            )
        given = {each.name: getattr(value, each.name) for each in fields(value) if each.compare}  # type: ignore[arg-type]
        return {"callback": name, "settings": {key: _to_json(each) for key, each in given.items()}}
    return list(value) if isinstance(value, tuple) else value


def _from_json(value: Any, parameters: dict[str, BendingParameter]) -> Any:
    if isinstance(value, list):
        return tuple(_from_json(each, parameters) for each in value)
    if not isinstance(value, dict):
        return value
    if "parameter" in value:
        return parameters[value["parameter"]]
    if "operation" in value:
        return Arithmetic(value["operation"], *(_from_json(each, parameters) for each in value["operands"]))
    if "chain" in value:
        return Chain(tuple(_from_json(each, parameters) for each in value["chain"]))
    settings = {key: _from_json(each, parameters) for key, each in value["settings"].items()}
    return _KNOWN[value["callback"]](**settings)
