"""Resolves targets to modules, parameters and activations."""

from __future__ import annotations

import difflib
import functools
import inspect
import operator
import re
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import fx, nn

from proxy_views.bending.errors import (
    KindError,
    NoMethodError,
    NoTargetError,
    NotBendableError,
    ScriptedError,
    TargetPatternError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MODULE: Final = "module"
PARAMETER: Final = "parameter"
ACTIVATION: Final = "activation"

KINDS: Final = (MODULE, PARAMETER, ACTIVATION)

_SWITCHED: Final = (
    *("with_grad", "without_grad", "in_inference_mode", "out_of_inference_mode"),
    *("autocast", "without_autocast"),
)
"""Markers in node names for torch switches that differ from those around the model."""

_METHOD: Final = re.compile(r"([^\W\d]\w*):(?!\))(.*)", re.DOTALL)


class Slot(NamedTuple):
    """Where a module holds a parameter."""

    owner: nn.Module
    key: str
    name: str


class Target(NamedTuple):
    """A resolved target of a model.

    Attributes:
        text: the target as given.
        method: the method of the model to which it is restricted; "" if it is not.
        modules: the qualified names of the modules to bend, by `id`.
        slots: the parameters to bend.
        pattern: the pattern for names of nodes, if nodes are bent.
    """

    text: str
    method: str
    modules: Mapping[int, str]
    slots: tuple[Slot, ...]
    pattern: re.Pattern[str] | None


class Names(NamedTuple):
    """The modules and parameters of a model, under all their qualified names."""

    modules: dict[str, nn.Module]
    slots: dict[str, Slot]

    @classmethod
    def of(cls, model: nn.Module) -> Names:
        """The current ones of `model`."""
        modules = dict(model.named_modules(remove_duplicate=False))
        slots = {
            (f"{name}.{key}" if name else key): Slot(module, key, f"{name}.{key}" if name else key)
            for name, module in modules.items()
            for key, parameter in module._parameters.items()
            if parameter is not None
        }
        return cls(modules, slots)


def parse_targets(targets: str | Iterable[str]) -> tuple[str, ...]:
    """The given targets as a tuple.

    Raises:
        NotBendableError: if they are not strings, or if there are none.
    """
    found: tuple[Any, ...] = (
        (targets,) if isinstance(targets, str) or not hasattr(targets, "__iter__") else tuple(targets)
    )
    if not found or not all(isinstance(each, str) for each in found):
        raise NotBendableError("targets", targets, "a regular expression, or several")
    return found


def resolve(model: nn.Module, text: str, kind: str | None, known: Mapping[str, str] | None = None) -> Target:
    """What `text` matches: modules, else parameters, else nodes of the graph.

    Args:
        model: the model.
        text: a regular expression, optionally preceded by a method.
        kind: which of the three it must match; None for any.
        known: for each node, its name during a call, if known.

    Raises:
        BendingError: if it matches nothing.
    """
    if kind is not None and kind not in KINDS:
        raise KindError(kind)
    method, pattern = _parse(model, text)
    names = Names.of(model)
    if kind in (None, MODULE):
        modules = {id(each): name for name, each in reversed(names.modules.items()) if pattern.fullmatch(name)}
        if modules:
            return Target(text, method, modules, (), None)
    if kind in (None, PARAMETER):
        slots = tuple(slot for name, slot in names.slots.items() if pattern.fullmatch(name))
        for slot in slots:
            if isinstance(slot.owner, torch.jit.ScriptModule):
                raise ScriptedError(slot.name)
        if slots:
            return Target(text, method, {}, slots, None)
    if kind in (None, ACTIVATION):
        nodes = _nodes(pattern, names, known)
        if nodes is not None:
            return Target(text, method, {}, (), nodes)
    near = (*names.modules, *names.slots, *(known if known is not None else _functions_of_torch()))
    raise NoTargetError(text, type(model).__name__, nearest(pattern.pattern, near))


def nearest(text: str, names: Iterable[str]) -> list[str]:
    """The names closest to `text`."""
    plain = re.sub(r"[\\^$]", "", text)
    known = list(dict.fromkeys(each for each in names if each))
    longer = [each for each in known if each.startswith(f"{plain}_")] if plain else []
    return list(dict.fromkeys([*difflib.get_close_matches(plain, known, n=3), *longer]))[:3]


def method_of(model: nn.Module, text: str, method: str) -> FunctionType:
    """The function of a method of `model`, inside its decorators.

    Raises:
        NoMethodError: if there is no such Python function.
    """
    found: Any = getattr(type(model), method, None)
    found = inspect.unwrap(found) if callable(found) else found
    if not isinstance(found, FunctionType):
        raise NoMethodError(text, method, type(model).__name__)
    return found


def _parse(model: nn.Module, text: str) -> tuple[str, re.Pattern[str]]:
    found = _METHOD.fullmatch(text)
    method, rest = (found.group(1), found.group(2)) if found is not None else ("", text)
    if method:
        method_of(model, text, method)
    try:
        return method, re.compile(rest)
    except re.error as error:
        raise TargetPatternError(text, str(error)) from error


def _nodes(pattern: re.Pattern[str], names: Names, known: Mapping[str, str] | None) -> re.Pattern[str] | None:
    """A pattern for names of nodes during a call; None if no node has, or could have, such a name."""
    if known is not None:
        found = sorted({name for node, name in known.items() if pattern.fullmatch(node)})
        return re.compile("|".join(map(re.escape, found))) if found else None
    # A node is named after a function or module, followed by the number of the call.
    numbers = ["", *{"1", "2", *re.findall(r"\d+", pattern.pattern)}]
    of_modules = {name.replace(".", "_") for name in names.modules if name}
    candidates = [
        f"{base}_{each}" if each else base for base in {*_functions_of_torch(), *of_modules} for each in numbers
    ]
    candidates += [f"{base}_{words}" for words in _SWITCHED if words in pattern.pattern for base in candidates]
    candidates += [f"{name}@{each}" for name in names.modules for each in numbers if each]
    return pattern if any(map(pattern.fullmatch, candidates)) else None


@functools.cache
def _functions_of_torch() -> frozenset[str]:
    """The names that nodes for torch functions may have."""
    graph = fx.Graph()
    holders = (torch, torch.Tensor, torch.nn.functional, torch.special, torch.linalg, torch.fft, operator)
    found = {name for each in holders for name in dir(each) if callable(getattr(each, name, None))}
    magic = {graph._target_to_str(name) for name in found if name.startswith("__") and name.endswith("__")}
    return frozenset({name for name in found if not name.startswith("_")} | magic | {"apply", "getattr"})
