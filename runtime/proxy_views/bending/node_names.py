"""Names the nodes of a graph while the calls are made."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import fx

from proxy_views.call_kinds import ITERATOR, READ, SIZE, SWITCH, VALUE, kind_of
from proxy_views.call_state import CallState, now
from proxy_views.call_under import CallUnder
from proxy_views.signature import arguments_of
from proxy_views.steps import TorchCall
from proxy_views.structures import tensors_in
from proxy_views.targets import Targets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn

_NO_STATE: Final = CallState(grad=True, inference=False, autocast=())
_NOT_NODES: Final = (READ, SIZE, VALUE, SWITCH)


class NodeNames:
    """Names the calls inside one call of a model as `graph()` names its nodes, in order.

    Sizes are not nodes here. So in a graph that has nodes for them (`live_sizes`), names such as `getitem` and `mul`,
    which both sizes and tensors may have, may be followed by other numbers.
    """

    def __init__(
        self,
        model: nn.Module,
        method: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        state: CallState | None = None,
    ) -> None:
        """Begin with the arguments of a call of `model`.

        Args:
            model: the called model.
            method: the method that takes the arguments.
            args: its positional arguments.
            kwargs: its keyword arguments.
            state: the state of torch's switches around the call; the present state by default.
        """
        self._namer = fx.Graph()
        self._targets = Targets()
        self._state = state or now(_NO_STATE)
        self._regions: list[CallState | None] = []
        self._module_calls: dict[str, int] = {}
        self._parameters = {id(each): name for name, each in _state_of(model)}
        self._parts: dict[int, tuple[torch.Tensor, list[str]]] = {}
        for argument in arguments_of(method, args, kwargs):
            self._name(argument.target.lstrip("*"))
            self._note_parts(argument.value)

    def of_call(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        state: CallState | None = None,
    ) -> str | None:
        """The name of the node of a call; None if it has no node of its own."""
        kind = kind_of(function)
        if kind in _NOT_NODES:
            return None
        self._name_arguments(args, kwargs)
        if kind == ITERATOR:
            return self._name("unbind")
        state = state or self._state_now()
        call = TorchCall(function, args, kwargs, None, (), state, (), kind)  # type: ignore[arg-type]
        _, target = self._targets.of(call)
        plain = self._namer._target_to_str(target)
        if state == self._state:
            return self._name(plain)
        words = CallUnder(function, state, self._state).__name__.removeprefix(getattr(function, "__name__", "call"))
        return self._name(plain + words)

    def begin_region(self, *, is_reentrant: bool) -> None:
        """Note that a checkpoint begins. Names ignore that a reentrant one first turns gradients off."""
        self._regions.append(self._state_now() if is_reentrant else None)

    def end_region(self) -> None:
        """Note that a checkpoint has ended."""
        if self._regions:
            self._regions.pop()

    def _state_now(self) -> CallState:
        state = now(self._state)
        around = next((each for each in self._regions if each is not None), None)
        return state if around is None else state._replace(grad=around.grad)

    def note_result(self, result: Any) -> None:
        """Note the result of a call: each tensor in a tuple gets a node when it is used."""
        self._note_parts(result)

    def of_module(self, name: str) -> tuple[str, ...]:
        """The names of the next output of the module with that qualified name."""
        number = self._module_calls.get(name, 0)
        self._module_calls[name] = number + 1
        plain = name.replace(".", "_")
        return (f"{plain}_{number}", f"{name}@{number}") if number else (plain,)

    def copied(self) -> NodeNames:
        """A copy that continues independently."""
        again = copy.copy(self)
        again._namer = fx.Graph()
        again._namer._graph_namespace = copy.deepcopy(self._namer._graph_namespace)
        again._module_calls = dict(self._module_calls)
        again._regions = []
        again._parts = dict(self._parts)
        return again

    def _name(self, candidate: str) -> str:
        return self._namer._graph_namespace.create_name(candidate, None)

    def _name_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Name what is used for the first time: parameters, buffers, and parts of tuples."""
        for _, tensor in tensors_in((args, dict(kwargs))):
            name = self._parameters.pop(id(tensor), None)
            if name is not None:
                self._name(name.replace(".", "_"))
            _, parts = self._parts.pop(id(tensor), (None, ()))
            for each in parts:
                self._name(each)

    def _note_parts(self, value: Any) -> None:
        if isinstance(value, torch.Tensor) or value is None:
            return
        for path, tensor in tensors_in(value):
            self._parts[id(tensor)] = (tensor, ["getattr" if part.is_attribute else "getitem" for part in path])


def _state_of(model: nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [*model.named_parameters(), *model.named_buffers()]
