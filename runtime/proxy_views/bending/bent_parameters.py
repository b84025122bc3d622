"""Replaces parameters by bent values where a model uses them; the parameters themselves do not change.

They are replaced among the arguments of torch calls. In blacklisted modules, whose torch calls are not observed, the
modules hold the replacements for the duration of a call.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import nn

from proxy_views.bending.targets import Slot
from proxy_views.call_kinds import READ, SWITCH, kind_of
from proxy_views.call_state import CallState, now
from proxy_wrapper.values.value_marks import version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    from proxy_views.bending.bends import Bend, Bent
    from proxy_views.bending.targets import Target

_NO_STATE: Final = CallState(grad=True, inference=False, autocast=())
_COMPUTED: Final = frozenset({"T", "mT", "H", "mH", "real", "imag"})
"""Attributes that are computed from a tensor's values. Others, such as `data`, belong to the parameter itself."""

_OF_THE_PARAMETER: Final = frozenset(
    {"backward", "grad", "register_hook", "register_post_accumulate_grad_hook", "retain_grad", "requires_grad_"}
    | {"__reduce_ex__", "__setstate__", "__set__", "__delete__", "_is_view", "swap_tensors"}
)
"""Functions that are called on the parameter itself."""

_NOT_IN_PLACE: Final = frozenset({"__invert__", "__index__", "__int__", "__iter__"})
_MODULE_FILE: Final = nn.Module.__call__.__code__.co_filename
_OPTIMIZERS: Final = os.path.join(os.path.dirname(torch.optim.__file__), "")  # noqa: PTH118, PTH120  As code has it.
_MOST_FRAMES: Final = 100


class _Parameter(NamedTuple):
    """A bent parameter, with its bends."""

    tensor: torch.Tensor
    found: list[Bent]


class _StandIn(NamedTuple):
    """The replacement of a parameter, and its version count when it was created."""

    version: int
    found: tuple[Bent, ...]
    tensor: torch.Tensor


class _Held(NamedTuple):
    """A module that holds the replacement of its parameter while `caller` runs."""

    caller: nn.Module
    slot: Slot
    parameter: torch.Tensor
    stand_in: torch.Tensor


class BentParameters:
    """The bent parameters of one thread."""

    def __init__(
        self,
        stand_in_for: Callable[[torch.Tensor, Sequence[Bent]], torch.Tensor],
        is_in: Callable[[Bend, Target], bool],
        used: Callable[[str], None],
    ) -> None:
        """Start without bends.

        Args:
            stand_in_for: bends a parameter.
            is_in: whether the method to which a target is restricted is running.
            used: called with the name of each parameter whose replacement is about to be used.
        """
        self._stand_in_for = stand_in_for
        self._is_in = is_in
        self._used = used
        self.is_blacklisted: Callable[[nn.Module], bool] = lambda _: False
        self._slots: tuple[tuple[Slot, Bent], ...] = ()
        self._by_identity: dict[int, _Parameter] = {}
        self._models: list[nn.Module] = []
        self._made: list[dict[tuple[int, CallState], _StandIn]] = [{}]  # One for each running checkpoint.
        self._held: list[_Held] = []

    @property
    def are_bent(self) -> bool:
        """Whether any parameters are bent."""
        return bool(self._slots)

    def bend(self, slots: Sequence[tuple[Slot, Bent]]) -> None:
        """Bend these from now on, and no others."""
        self._slots = tuple(slots)
        self._models = list({id(bent.bend.model): bent.bend.model for _, bent in slots}.values())
        self.look_up()

    def look_up(self) -> None:
        """Find the tensors that the modules hold now, because some programs replace them."""
        self.put_back()
        self.forget()
        found: dict[int, _Parameter] = {}
        for slot, bent in self._slots:
            tensor = slot.owner._parameters.get(slot.key)
            if tensor is None:
                continue
            entry = found.setdefault(id(tensor), _Parameter(tensor, []))
            if all(each.bend is not bent.bend for each in entry.found):  # A tied one is bent once.
                entry.found.append(bent)
        self._by_identity = found

    def forget(self) -> None:
        """Discard all replacements, so that they are computed again."""
        self._made = [{}]

    def begin_region(self) -> None:
        """Note that a checkpoint begins: it must compute its own replacements, to be recomputable."""
        if self._slots:
            self._made.append({})

    def end_region(self) -> None:
        """Note that a checkpoint has ended."""
        if len(self._made) > 1:
            self._made.pop()

    # Among the arguments of torch's calls.

    def arguments(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], *, is_in_call: bool
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """The arguments, with parameters replaced.

        Args:
            function: the called function.
            args: its positional arguments.
            kwargs: its keyword arguments.
            is_in_call: whether a module of a bent model is being called.
        """
        if not any(map(self._has, args)) and not (kwargs and any(map(self._has, kwargs.values()))):
            return args, kwargs
        first = _first_to_replace(function)
        if first < 0 or not (is_in_call or self._is_in_method()):
            return args, kwargs
        replaced = (*args[:first], *map(self._replaced, args[first:]))
        return replaced, {key: each if key == "out" else self._replaced(each) for key, each in kwargs.items()}

    def _has(self, value: Any) -> bool:
        if type(value) in (list, tuple):
            return any(map(self._has, value))
        return id(value) in self._by_identity and self._by_identity[id(value)].tensor is value

    def _replaced(self, value: Any) -> Any:
        if type(value) in (list, tuple):
            return type(value)(map(self._replaced, value)) if self._has(value) else value
        entry = self._by_identity.get(id(value))
        return value if entry is None or entry.tensor is not value else self._stand_in(entry)

    def stand_in(self, parameter: torch.Tensor) -> torch.Tensor:
        """The replacement of a parameter; `parameter` itself if it is not bent."""
        entry = self._by_identity.get(id(parameter))
        return parameter if entry is None or entry.tensor is not parameter else self._stand_in(entry)

    def _stand_in(self, entry: _Parameter) -> torch.Tensor:
        found = tuple(each for each in entry.found if self._is_in(each.bend, each.target))
        if not found:
            return entry.tensor
        key = (id(entry.tensor), now(_NO_STATE))
        made, version = self._made[-1].get(key), version_of(entry.tensor)
        if made is None or made.version != version or made.found != found:
            made = self._made[-1][key] = _StandIn(version, found, self._stand_in_for(entry.tensor, found))
        if made.tensor is not entry.tensor:
            self._used(found[0].name)
        return made.tensor

    def _is_in_method(self) -> bool:
        """Whether a method of a module of a bent model, of which hooks are not notified, is running."""
        frame: FrameType | None = sys._getframe(2)
        members = {id(each) for model in self._models for each in model.modules()}
        for _ in range(_MOST_FRAMES):
            if frame is None:
                return False
            code = frame.f_code
            if code.co_filename.startswith(_OPTIMIZERS):
                return False
            if code.co_argcount and code.co_filename != _MODULE_FILE:
                owner = frame.f_locals.get(code.co_varnames[0])
                if isinstance(owner, nn.Module) and id(owner) in members:
                    self.forget()  # Its end is not reported.
                    return True
            frame = frame.f_back
        return False

    # In modules whose calls of torch are not seen.

    def enter(self, module: nn.Module) -> None:
        """Put replacements into `module` and the modules inside it, if it is blacklisted."""
        if self._held or not self.is_blacklisted(module):
            return
        for owner in module.modules():
            for key, parameter in owner._parameters.items():
                entry = self._by_identity.get(id(parameter))
                if entry is not None and parameter is not None and entry.tensor is parameter:
                    stand_in = self._stand_in(entry)
                    if stand_in is not parameter:
                        self._held.append(_Held(module, Slot(owner, key, entry.found[0].name), parameter, stand_in))
        for each in self._held:
            each.slot.owner._parameters[each.slot.key] = each.stand_in  # type: ignore[assignment]

    def leave(self, module: nn.Module) -> None:
        """Restore the parameters that `enter` has replaced for this module."""
        if self._held and self._held[0].caller is module:
            self.put_back()

    def put_back(self) -> None:
        """Restore all parameters."""
        for each in self._held:
            if each.slot.owner._parameters.get(each.slot.key) is each.stand_in:
                each.slot.owner._parameters[each.slot.key] = each.parameter  # type: ignore[assignment]
        self._held.clear()


def _first_to_replace(function: Callable[..., Any]) -> int:
    """The index of the first argument of a function that it computes with; -1 if there is none.

    The first argument of an in-place function is changed itself.
    """
    name = getattr(function, "__name__", "")
    if name == "__get__":
        owner = function.__self__  # type: ignore[attr-defined]
        attribute = getattr(owner, "__name__", None) or getattr(getattr(owner, "fget", None), "__name__", "")
        return 0 if attribute in _COMPUTED else -1
    if name in _OF_THE_PARAMETER or kind_of(function) in (READ, SWITCH):
        return -1
    if name.startswith("__"):
        is_in_place = name == "__setitem__" or (name.startswith("__i") and name not in _NOT_IN_PLACE)
    else:
        is_in_place = name.endswith("_")
    return 1 if is_in_place else 0
