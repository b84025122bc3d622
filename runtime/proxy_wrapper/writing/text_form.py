"""Events as lines of the text log: the one renderer behind a `.log` trace and `proxy-trace log`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from proxy_wrapper import events
from proxy_wrapper.writing.announced_tensors import AnnouncedTensors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_wrapper.events import AnyEvent, Statistics

_INFO: Final = "INFO:root:"
_WARNING: Final = "WARNING:root:"
_TENSOR_KNOWN: Final = f"{_INFO}Object 'Tensor' is already proxied"
_TENSOR_NEW: Final = f"{_INFO}Go to __init__ for object 'Tensor'"
_METHOD_KNOWN: Final = f"{_INFO}Object 'builtin_function_or_method' is already proxied"
_METHOD_NEW: Final = f"{_INFO}Go to __init__ for object 'builtin_function_or_method'"
_METHOD_CALL: Final = f"{_INFO}Go to __call__ for object 'builtin_function_or_method'"
_GRADIENT_READ: Final = f"{_INFO}Accessing attribute 'grad'"
_REMEMBERED: Final = 1 << 16
_CALLABLE_TYPES: Final = frozenset({"builtin_function_or_method", "function", "method", "method-wrapper"})


class TextForm:
    """Renders the events of one process as text, in the order in which they were recorded.

    It tracks definitions of modules, tensors and locations, so each file of a trace needs its own instance. Its memory
    grows with the program's code and model, not with its run time.
    """

    def __init__(self) -> None:
        self._modules: dict[int, events.Module] = {}
        self._tensors: dict[int, events.StateTensor] = {}
        self._locations: dict[int, events.Location] = {}
        self._class_by_state_name: dict[str, str] = {}
        self._class_by_module_name: dict[str, str] = {}
        self._id_by_state_name: dict[str, int] = {}
        self._announced = AnnouncedTensors()
        self._with_gradient: set[int] = set()
        self._method_lines: dict[str, list[str]] = {}
        self._function_lines: dict[str, str] = {}
        self._setting_lines: dict[str, str] = {}
        self._has_root = False
        self._render: dict[type[events.Event], Callable[[Any], Sequence[str]]] = {
            events.Run: _nothing,
            events.Location: self._location,
            events.Module: self._module,
            events.Parameter: self._state_tensor,
            events.Buffer: self._state_tensor,
            events.OptimizerState: self._state_tensor,
            events.CallModule: self._call_module,
            events.ReturnModule: self._return_module,
            events.Input: _nothing,
            events.Loss: _nothing,
            events.Backward: self._backward,
            events.BackwardEnd: self._backward_end,
            events.Optimizer: _nothing,
            events.OptimizerStep: self._optimizer_step,
            events.OptimizerStepEnd: _nothing,
            events.SchedulerStep: _nothing,
            events.RateReduced: _nothing,
            events.Clip: _nothing,
            events.ScalerStep: _nothing,
            events.Loading: _nothing,
            events.Load: _nothing,
            events.ActiveDropout: _nothing,
            events.DiscardedResult: _nothing,
            events.SourcePattern: _nothing,
            events.FreezeWithoutEffect: _nothing,
            events.RateWithoutEffect: _nothing,
            events.ScheduleRestart: _nothing,
            events.LoadedRate: _nothing,
            events.GraphPattern: _nothing,
            events.StatePattern: _nothing,
            events.Gradient: self._gradient,
            events.Update: self._update,
            events.NonFinite: self._non_finite,
            events.CallFunction: self._call_function,
            events.CallMethod: self._call_method,
            events.ReadValue: self._read_value,
            events.FlowStep: self._flow_step,
            events.GetAttr: self._get_attr,
            events.SetAttr: self._set_attr,
            events.DelAttr: self._del_attr,
            events.Configuration: _configuration,
            events.Problem: self._problem,
            events.Limit: self._limit,
            events.RunEnd: _run_end,
        }

    def lines(self, event: AnyEvent) -> Sequence[str]:
        """The lines that `event` adds to the log, without line ends. Many events add none."""
        return self._render[type(event)](event)

    # Definitions

    def _location(self, event: events.Location) -> list[str]:
        self._locations[event.id] = event
        return []

    def _module(self, event: events.Module) -> list[str]:
        if event.removed:
            return []
        before = self._modules.get(event.id)
        self._modules[event.id] = event
        self._class_by_module_name[event.name] = event.type
        if before is not None and before.name == event.name:
            return [_known(event.type)]
        if event.parent:
            return [f"logger_proxy: Proxying submodule '{_last(event.name)}'"]
        proxying = f"logger_proxy: Proxying all submodules of '{event.type}'"
        if self._has_root:
            return [proxying]
        self._has_root = True
        return ["found the root object", proxying]

    def _state_tensor(self, event: events.StateTensor) -> list[str]:
        if event.removed or event.freed:
            return []
        is_known = event.id in self._tensors
        class_name = "Parameter" if isinstance(event, events.Parameter) else "Tensor"
        self._tensors[event.id] = event
        self._class_by_state_name[event.name] = class_name
        self._id_by_state_name[event.name] = event.id
        for alias in event.aliases:
            self._class_by_state_name[alias] = class_name
        if is_known:
            return [_known(class_name)]
        met = _known if self._was_announced(event) else _new
        return [met(class_name), *self._values(event.type, event.statistics)]

    def _was_announced(self, event: events.StateTensor) -> bool:
        """Whether a tensor was mentioned before its definition, as the result of the call that created it."""
        holder = self._modules.get(event.module)
        return isinstance(event, events.OptimizerState) and holder is not None and holder.level == "DEBUG"

    # Happenings

    def _call_module(self, event: events.CallModule) -> list[str]:
        return [f"{_INFO}Go to __call__ for object '{self._module_class(event.module)}'"]

    def _return_module(self, event: events.ReturnModule) -> Sequence[str]:
        if event.raised:
            return [f"{_INFO}Object '{self._module_class(event.module)}' raised an exception in __call__"]
        return self._results(event.outputs, event.output_ids, event.statistics)

    def _backward(self, event: events.Backward) -> list[str]:
        return [f"{_INFO}Go to __call__ for object '{event.function}'"]

    def _backward_end(self, event: events.BackwardEnd) -> list[str]:
        return [f"{_INFO}Object 'backward' raised an exception in __call__"] if event.raised else []

    def _optimizer_step(self, event: events.OptimizerStep) -> list[str]:
        return [f"{_INFO}Go to __call__ for object '{event.optimizer}.step'"]

    def _gradient(self, event: events.Gradient) -> list[str]:
        if event.statistics is None:
            return [_GRADIENT_READ]
        tensor = self._tensors.get(event.tensor)
        if event.tensor in self._with_gradient:
            met = _TENSOR_KNOWN
        else:
            if tensor is not None:  # Unknown ones could be endless.
                self._with_gradient.add(event.tensor)
            met = _TENSOR_NEW
        return [_GRADIENT_READ, met, *self._values(tensor.type if tensor else "", event.statistics)]

    def _update(self, event: events.Update) -> list[str]:
        tensor = self._tensors.get(event.tensor)
        if tensor is not None and event.type:
            tensor = self._tensors[event.tensor] = msgspec.structs.replace(tensor, type=event.type)
        if event.cause == "unchanged":
            is_plain = isinstance(tensor, (events.Buffer, events.OptimizerState))
            return [_known("Tensor" if is_plain else "Parameter")]
        return self._values(event.type or (tensor.type if tensor else ""), event.statistics)

    def _call_function(self, event: events.CallFunction) -> list[str]:
        target = event.target
        line = self._function_lines.get(target)
        if line is None:
            _make_room(self._function_lines)
            line = f"{_INFO}Go to __torch_function__ for function '{_last(target)}'"
            self._function_lines[target] = line
        return [line, *self._given(event)] if event.outputs or event.changed else [line]

    def _call_method(self, event: events.CallMethod) -> list[str]:
        target = event.target
        lines = self._method_lines.get(target)
        if lines is None:
            _make_room(self._method_lines)
            access = f"{_INFO}Accessing attribute '{_last(target)}'"
            self._method_lines[target] = [access, _METHOD_KNOWN, _METHOD_CALL]
            lines = [access, _METHOD_NEW, _METHOD_CALL]
        return [*lines, *self._given(event)]

    def _read_value(self, event: events.ReadValue) -> list[str]:
        return [f"{_INFO}Go to __torch_function__ for function '{_last(event.target)}'"]

    def _flow_step(self, event: events.FlowStep) -> list[str]:
        if event.value is not None:
            came_out = str(event.value)
        else:
            came_out = f"{event.iterations or 0} iteration{'' if event.iterations == 1 else 's'}"
        text = " ".join(event.text.split())
        return [f"{_INFO}Flow step '{event.construct} {text}': {came_out}{self._place(event.location)}"]

    def _get_attr(self, event: events.GetAttr) -> list[str]:
        line = f"{_INFO}Accessing attribute '{event.target}'"
        value = event.value
        class_name = self._class_by_state_name.get(value) or self._class_by_module_name.get(value)
        if class_name is not None:
            return [line, _known(class_name), *self._values(self._type(value), event.statistics)]
        if value.endswith("]"):
            return [line, self._attribute_line(event), *self._values(value, event.statistics)]
        if value in _CALLABLE_TYPES:
            return [line, _known(value)]
        return [line]

    def _set_attr(self, event: events.SetAttr) -> list[str]:
        return [f"{_INFO}Setting attribute '{event.target}' to '{event.value}'"]

    def _del_attr(self, event: events.DelAttr) -> list[str]:
        return [f"{_INFO}Deleting attribute '{event.target}'"]

    # Warnings

    def _non_finite(self, event: events.NonFinite) -> list[str]:
        if event.where == "output":
            what = f"the output of {self._module_words(event.module)}"
        elif event.where == "loss":
            what = "the loss of a backward pass"
            if event.variable:
                what += f" (the variable '{event.variable}' is the first that holds a NaN{self._place(event.computed)})"
        else:
            tensor = self._tensors.get(event.tensor)
            name = f"'{tensor.name}'" if tensor else f"#{event.tensor}"
            what = f"the gradient of parameter {name}" if event.where == "gradient" else f"{event.where} {name}"
        count = f"{event.count} element{'' if event.count == 1 else 's'}"
        size = f" of {event.type}" if event.type else ""
        when = f"at step {event.step}{self._place(event.location)}"
        return [f"{_WARNING}First NaN or infinity in {what}: {count}{size}, {when}"]

    def _problem(self, event: events.Problem) -> list[str]:
        where = f" in {self._module_words(event.module)}" if event.module else ""
        message = " ".join(event.message.split())
        when = f"at step {event.step}{self._place(event.location)}"
        return [f"{_WARNING}Tracing problem{where}: {message} ({when})"]

    def _limit(self, event: events.Limit) -> list[str]:
        return [f"{_WARNING}The log has reached {event.max_size:,} bytes: from here on, only state changes are kept"]

    # Parts of lines

    def _values(self, type_: str, statistics: Statistics | None) -> list[str]:
        """The lines for a tensor's new values: its shape, minimum and maximum."""
        if statistics is None:
            return []
        setting = self._setting_lines.get(type_)
        if setting is None:
            _make_room(self._setting_lines)
            setting = f"{_INFO}Setting attribute '_obj' to an updated tensor with shape'{torch_size(type_)}'"
            self._setting_lines[type_] = setting
        if statistics.minimum is None:
            return [setting]
        return [
            setting,
            f"{_INFO}Minimum value: {statistics.minimum}",
            f"{_INFO}Maximum value: {statistics.maximum}",
        ]

    def _given(self, event: events.CallFunction) -> list[str]:
        """The lines for what a call returned, and for what else it changed."""
        lines = self._results(event.outputs, event.output_ids, event.statistics, is_known=event.in_place)
        positions = [position for position in event.changed if position < len(event.inputs)]
        if positions:
            numbers = _padded(event.input_ids, len(event.inputs))
            names = [event.inputs[position] for position in positions]
            lines += self._results(names, [numbers[position] for position in positions], event.changed_statistics)
        return lines

    def _results(
        self,
        outputs: Sequence[str],
        numbers: Sequence[int],
        statistics: Sequence[Statistics | None] | None,
        *,
        is_known: bool = False,
    ) -> list[str]:
        """The lines for tensors that a call returned, each with its values if recorded.

        Args:
            outputs: the names or types of the tensors.
            numbers: the numbers of the tensors; older traces have none.
            statistics: the statistics of the tensors.
            is_known: whether tensors without a number existed before the call.
        """
        known = self._class_by_state_name
        lines: list[str] = []
        for position, (output, number) in enumerate(zip(outputs, _padded(numbers, len(outputs)), strict=True)):
            if output in known:
                lines.append(_known(known[output]))
            else:
                is_new = self._announced.announce(number) if number else not is_known
                lines.append(_TENSOR_NEW if is_new else _TENSOR_KNOWN)
            if statistics is not None and position < len(statistics):
                lines += self._values(self._type(output), statistics[position])
        return lines

    def _attribute_line(self, event: events.GetAttr) -> str:
        """The line for a tensor that was read. A gradient counts as one tensor although each step makes a new one."""
        is_new = not event.value_id or self._announced.announce(event.value_id)
        owner = self._id_by_state_name.get(event.owner, 0) if event.target == "grad" else 0
        if owner:
            is_new = owner not in self._with_gradient
            self._with_gradient.add(owner)
        return _TENSOR_NEW if is_new and not event.known else _TENSOR_KNOWN

    def _type(self, name: str) -> str:
        """The type of the state tensor `name`; `name` itself if it is not a name but a type."""
        tensor = self._tensors.get(self._id_by_state_name.get(name, 0))
        return name if tensor is None else tensor.type

    def _module_class(self, id_: int) -> str:
        module = self._modules.get(id_)
        return module.type if module else "Module"

    def _module_words(self, id_: int) -> str:
        module = self._modules.get(id_)
        return f"module '{module.name}' ({module.type})" if module else f"module #{id_}"

    def _place(self, id_: int) -> str:
        location = self._locations.get(id_)
        return f", {location.file}:{location.line} in {location.function}" if location else ""


def _padded(numbers: Sequence[int], count: int) -> Sequence[int]:
    """The numbers of `count` tensors, 0 for those missing in the trace."""
    return numbers if len(numbers) == count else (*numbers[:count], *[0] * (count - len(numbers)))


def _make_room(lines: dict[str, Any]) -> None:
    """Clear the cache of lines if it has become larger than the names of a program could explain."""
    if len(lines) >= _REMEMBERED:
        lines.clear()


def torch_size(type_: str) -> str:
    """The shape in a description of a tensor as torch prints it: "float32[64, 1]" is "torch.Size([64, 1])"."""
    start = type_.find("[")
    return f"torch.Size({type_[start:]})" if start >= 0 else "torch.Size([])"


def _configuration(event: events.Configuration) -> list[str]:
    return [f"{_INFO}Setting configuration '{name}' to '{value}'" for name, value in event.settings.items()]


def _run_end(event: events.RunEnd) -> list[str]:
    if event.error:
        return [f"{_WARNING}The run ended with an exception of type '{event.error}', at step {event.step}"]
    return [f"{_INFO}The trace ends in order ({event.reason}), at step {event.step}"]


def _nothing(_: events.Event) -> list[str]:
    return []


def _known(class_name: str) -> str:
    return f"{_INFO}Object '{class_name}' is already proxied"


def _new(class_name: str) -> str:
    return f"{_INFO}Go to __init__ for object '{class_name}'"


def _last(name: str) -> str:
    """The part of a dotted name after the last dot."""
    return name.rpartition(".")[2]
