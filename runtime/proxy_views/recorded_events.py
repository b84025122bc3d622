"""Converts a recording to events, much as a trace of the same call at level DEBUG would have them.

Whatever is computed from events is thus computed for a live call by the same code.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from proxy_views.call_kinds import SIZE, VALUE
from proxy_views.steps import ModuleCall, TorchCall
from proxy_views.structures import tensors_in
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_views.recording import Recording
    from proxy_wrapper.events import AnyEvent

ROOT: Final = "model"
"""The name of the model in these events."""

_ATTRIBUTE_READ: Final = "__get__"


def events_of(recording: Recording) -> Iterator[AnyEvent]:
    """The definitions of modules and parameters, followed by the events of the call in order."""
    words = _Words(recording)
    yield from words.definitions()
    yield from words.happenings()


class _Words:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._numbers = count(1)
        self._modules: dict[int, int] = {}
        self._found: list[events.Module] = []
        root = type(recording.model)
        self._root = self._define(id(recording.model), ROOT, root, 0)

    def _define(self, key: int, name: str, type_: type, parent: int) -> int:
        number = self._modules[key] = next(self._numbers)
        self._found.append(
            events.Module(
                id=number, name=name, type=type_.__name__, root=number if not parent else self._root, parent=parent,
                level="DEBUG", module_of_type=type_.__module__,
            )
        )  # fmt: skip
        return number

    def definitions(self) -> Iterator[AnyEvent]:
        """Modules, including those created during the call, and parameters."""
        recording = self._recording
        by_key = {id(step.module): step for step in recording.steps if isinstance(step, ModuleCall)}
        for key, module in recording.modules.items():
            name = recording.tree[key]
            if name:
                self._define(key, f"{ROOT}.{name}", type(module), self._root)
        for key, step in by_key.items():
            if key not in self._modules:
                above = self._modules.get(id(step.parent.module), self._root) if step.parent is not None else self._root
                self._define(key, f"{ROOT}.{type(step.module).__name__}", type(step.module), above)
        yield from self._found
        for number, (name, tensor) in enumerate(recording.tensors.values(), start=1):
            if name in recording.parameter_names:
                aliases = [f"{ROOT}.{each}" for each in recording.aliases.get(id(tensor), ())]
                yield events.Parameter(id=number, name=f"{ROOT}.{name}", module=self._root, type="", aliases=aliases)

    def happenings(self) -> Iterator[AnyEvent]:
        """Calls of modules, their ends, and torch calls."""
        open_calls: list[ModuleCall] = []
        steps = self._recording.steps
        for number, step in enumerate(steps):
            while open_calls and open_calls[-1].end <= number:
                yield self._end(open_calls.pop())
            if isinstance(step, ModuleCall):
                open_calls.append(step)
                yield events.CallModule(0, module=self._modules[id(step.module)])
            elif step.kind != SIZE:
                yield self._call(step)
        while open_calls:
            yield self._end(open_calls.pop())

    def _end(self, call: ModuleCall) -> AnyEvent:
        return events.ReturnModule(0, module=self._modules[id(call.module)])

    def _call(self, call: TorchCall) -> AnyEvent:
        module = self._modules[id(call.module_call.module)]
        name = getattr(call.function, "__name__", "")
        inputs = tuple(self._name_all((call.args, dict(call.kwargs))))
        if name == _ATTRIBUTE_READ:
            target = getattr(call.function.__self__, "__name__", "")  # type: ignore[attr-defined]
            return events.GetAttr(0, module=module, target=target, owner=inputs[0] if inputs else "", value_id=1)
        outputs = tuple("tensor" for _ in tensors_in(call.result))
        if call.kind == VALUE:
            return events.ReadValue(0, module=module, target=name, inputs=inputs)
        return events.CallFunction(0, module=module, target=name, inputs=inputs, outputs=outputs)

    def _name_all(self, value: object) -> Iterator[str]:
        """The name of each tensor in `value`: its own for the model's state, "tensor" for any other."""
        for _, tensor in tensors_in(value):
            known = self._recording.tensors.get(id(tensor))
            yield f"{ROOT}.{known[0]}" if known is not None else "tensor"
