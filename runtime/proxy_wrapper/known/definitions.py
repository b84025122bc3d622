"""Sends the definitions of modules, parameters and buffers, to which other events refer by id."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Final

from proxy_wrapper.code_lines.filled_lines import FilledLines
from proxy_wrapper.code_lines.item_lines import ItemLines
from proxy_wrapper.code_lines.named_lines import filling_line
from proxy_wrapper.code_lines.repeated_lists import repeated_line, repeats_new_object
from proxy_wrapper.events import Buffer, Module, OptimizerState, Parameter, Statistics
from proxy_wrapper.known.entries import OptimizerStateEntry, StateEntry
from proxy_wrapper.known.module_tree import named_modules
from proxy_wrapper.known.plain_settings import plain_settings
from proxy_wrapper.levels import level_name
from proxy_wrapper.program_code.assigned_lines import AttributeLines, attribute_assigned
from proxy_wrapper.program_code.called_functions import Body, bodies_around, functions_of
from proxy_wrapper.program_code.outermost_calls import makes_other_class
from proxy_wrapper.values.distributed_tensors import placements_of
from proxy_wrapper.values.statistics import summarize, unobserved
from proxy_wrapper.values.torch_functions import numel
from proxy_wrapper.values.value_marks import marks_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import FrameType

    import torch
    from torch import nn

    from proxy_wrapper.events import Setting
    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.known.registry import Registry
    from proxy_wrapper.places.location import Locator
    from proxy_wrapper.program_code.assigned_lines import AssignedLine
    from proxy_wrapper.program_code.parsed_functions import ParsedFunctions
    from proxy_wrapper.values.describe import Describer
    from proxy_wrapper.writing.channel import Channel

_MOST_FREEZINGS: Final = 2
"""How often a parameter is defined again because it was frozen or unfrozen."""


class Definitions:
    """Makes `Module`, `Parameter` and `Buffer` events."""

    def __init__(
        self,
        registry: Registry,
        describer: Describer,
        now_us: Callable[[], int],
        locator: Locator,
        functions: ParsedFunctions,
    ) -> None:
        self._registry = registry
        self._describer = describer
        self._now_us = now_us
        self._locator = locator
        self._attributes = AttributeLines()
        self._items = ItemLines(functions)
        # For the line of an attribute and the class of a module: whether that line makes a module of another class.
        self._are_others: dict[tuple[int, str, type], bool] = {}
        self._fillings = FilledLines(locator.is_user_code)

    def define_all(self, channel: Channel) -> None:
        """Send the definitions of everything whose events go to `channel`."""
        self.define(entry for entry in self._registry if entry.channel is channel)

    def define(self, entries: Iterable[ModuleEntry]) -> None:
        """Send the definitions of modules, and of the parameters and buffers that they hold."""
        for entry in entries:
            module = entry.module()
            if module is None:
                continue
            self.define_module(entry, module, 0)
            for state in entry.state:
                tensor = state.tensor()
                if tensor is not None:
                    self.define_tensor(state, tensor)
                for kept in () if state.optimizer_state is None else state.optimizer_state.entries.values():
                    tensor = kept.tensor()
                    if tensor is not None:
                        self.define_tensor(kept, tensor)

    def define_module(self, entry: ModuleEntry, module: nn.Module, location: int) -> None:
        """Send the definition of `module`, which was proxied at `location`."""
        entry.calls_seen = _is_call_of_torch(module)
        entry.module_of_type = _module_of_type(module)
        parameters = sum(_elements(found.module) for found in named_modules(module, ""))
        if parameters:
            self._note_repeated(entry, module)
        self._send_module(entry, parameters, location)

    def _send_module(self, entry: ModuleEntry, parameters: int, location: int) -> None:
        parent = entry.parent if entry.parent is not None and entry.parent.channel is entry.channel else None
        made = entry.repeated_at or self._made(entry)
        entry.channel.define_location(made)
        entry.channel.emit(
            Module(
                id=entry.id,
                name=entry.name,
                type=entry.type_name,
                root=entry.root.id,
                parent=parent.id if parent is not None else 0,
                level=level_name(entry.configured_level),
                parameters=parameters,
                location=location,
                time_us=self._now_us(),
                first=entry.watch.first,
                every=entry.watch.every,
                calls_seen=entry.calls_seen,
                removed=entry.removed,
                module_of_type=entry.module_of_type,
                made=made,
                settings=_settings_of(entry),
                repeated=entry.repeated,
            ),
            location,
        )

    def _made(self, entry: ModuleEntry) -> int:
        """Where the `__init__` of an enclosing module assigns this module, or its container; 0 if unknown.

        In a container that is written over several lines, it is the line of the item.
        """
        path: list[str] = []
        while entry.parent is not None:
            holder = entry.parent.module()
            key = entry.name.rpartition(".")[2]
            if holder is not None:
                assigned = self._attributes.find(type(holder), key)
                found = self._locator.line(assigned)
                if found and assigned is not None:
                    item = self._locator.line(self._items.find(assigned, path))
                    return self._replaced(entry, type(holder), key, assigned) or item or found
            path.insert(0, key)
            entry = entry.parent
        return 0

    def _replaced(self, entry: ModuleEntry, owner: type, key: str, assigned: AssignedLine) -> int:
        """Where a running function assigns a module that took the place of one of another class; 0 if unknown."""
        module = entry.module()
        frame: FrameType | None = sys._getframe()
        while frame is not None and not self._locator.is_user_code(frame.f_code):
            frame = frame.f_back
        if module is None or frame is None:
            return 0
        # Many modules of one class come from one line. The finder of attributes keeps the code, and so its id.
        place = (id(assigned.code), key, type(module))
        if place not in self._are_others:
            body = Body(assigned.code, vars(sys.modules.get(owner.__module__, sys)))
            self._are_others[place] = makes_other_class(body, assigned.line, key, type(module))
        other = attribute_assigned(frame, key, beside=assigned.code) if self._are_others[place] else None
        if other is None or makes_other_class(Body(other.code, frame.f_globals), other.line, key, type(module)):
            return 0
        return self._locator.line(other)

    def _note_repeated(self, entry: ModuleEntry, module: nn.Module) -> None:
        """Note how many positions of a container hold one module that the program makes once and multiplies."""
        children = list(module._modules.values())
        if len(children) < 2 or children[0] is None or any(each is not children[0] for each in children):
            return
        holder = None if entry.parent is None else entry.parent.module()
        key = entry.name.rpartition(".")[2]
        assigned = None if holder is None else self._attributes.find(type(holder), key)
        if assigned is not None:
            entry.repeated = len(children) if repeats_new_object(assigned.code, key) else 0
            return
        codes = [each.code for each in bodies_around(self._locator.user_frame(), self._locator.is_user_code)]
        defining = sys.modules.get(type(children[0]).__module__)
        codes += [each.code for each in functions_of({} if defining is None else vars(defining))]
        found = repeated_line(filter(self._locator.is_user_code, codes), type(children[0]).__name__)
        if found is not None:
            entry.repeated, entry.repeated_at = len(children), self._locator.line(found)

    def define_tensor(self, state: StateEntry, tensor: torch.Tensor) -> None:
        """Send the definition of one parameter or buffer, with its last known statistics."""
        state.placements = placements_of(tensor)
        state.requires_grad, state.derived = tensor.requires_grad, not tensor.is_leaf
        state.type = self._describer.describe(tensor)
        state.device = str(tensor.device)
        self._send_tensor(state)

    def define_freed(self, states: Iterable[StateEntry]) -> None:
        """Redefine parameters whose model was freed before it was seen whether their gradient changed them."""
        for state in states:
            if state.id not in self._registry.state:  # Else another model has replaced theirs.
                self._send_tensor(state, freed=True)

    def _filled(self, state: StateEntry) -> int:
        """Where the program fills a weight with the one number that it holds; 0 if this is unknown.

        It is the `__init__` of an enclosing module, or else the only line around that fills any tensor. For a weight of
        zeros, it is the line of such a method that names the weight, or its layer.
        """
        values = state.statistics
        # Normalisation layers start with vectors of ones, and a single row has no others to equal.
        is_matrix = "," in state.type and "[1," not in state.type
        if not is_matrix or type(values) is not Statistics or values.minimum != values.maximum:
            return 0
        entry: ModuleEntry | None = state.holder
        while entry is not None:
            module = entry.module()
            if module is None:
                line = None
            elif values.minimum:
                line = self._fillings.find(type(module))
            else:
                attribute = state.name.removeprefix(f"{entry.name}.").partition(".")[0]
                line = self._fillings.find_zeros(type(module), attribute)
            if line is not None:
                return self._locator.line(line)
            entry = entry.parent
        if not values.minimum:
            return 0
        return self._locator.line(filling_line(bodies_around(sys._getframe(), self._locator.is_user_code)))

    def _send_tensor(self, state: StateEntry, *, freed: bool = False) -> None:
        filled = self._filled(state)
        if filled:
            state.holder.channel.define_location(filled)
        state.holder.channel.emit(
            _kind(state)(
                id=state.id,
                name=state.name,
                module=state.holder.id,
                type=state.type,
                device=state.device,
                requires_grad=state.requires_grad,
                aliases=state.aliases,
                statistics=state.statistics,
                time_us=self._now_us(),
                watched=state.watched,
                placements=state.placements,
                removed=state.removed,
                freed=freed,
                filled=filled,
                derived=state.derived,
            )
        )

    def define_removed(self) -> None:
        """Redefine what was removed from a model that still exists, and what was put back.

        A model that was freed as a whole has lost nothing.
        """
        registry = self._registry
        roots = [module for entry in registry if entry.parent is None and (module := entry.module()) is not None]
        present = {id(found.module) for root in roots for found in named_modules(root, "")}
        for entry in registry:
            is_removed = entry.is_submodule and entry.top.module() is not None and id(entry.module()) not in present
            self._note_removed(entry, is_removed)
            for state in entry.state:
                self._note_removed(state, is_removed or state.is_absent())
        for entry in list(registry.departed.values()):
            successor = entry.successor  # It has this one's number, and those of the tensors it shares.
            if successor is None:
                self._note_removed(entry, is_removed=True)
            taken_over = {state.id for state in successor.state} if successor is not None else ()
            for state in entry.state:
                if state.id not in taken_over:
                    self._note_removed(state, is_removed=True)

    def _note_removed(self, entry: ModuleEntry | StateEntry, is_removed: bool) -> None:
        if entry.removed is is_removed:
            return
        entry.removed = is_removed
        if isinstance(entry, StateEntry):
            self._send_tensor(entry)
        else:
            self._send_module(entry, 0, 0)

    def define_holders(self, holders: Iterable[ModuleEntry]) -> None:
        """Redefine modules and those above them, because the sizes of parameters, or types of lazy modules, changed."""
        known = dict.fromkeys(holders)
        for entry in list(known):
            above = entry.parent
            while above is not None:
                known[above] = None
                above = above.parent
        for entry in known:
            module = entry.module()
            if module is not None:
                entry.type_name = type(module).__name__
                self.define_module(entry, module, 0)

    def define_placements(self, state: StateEntry, tensor: torch.Tensor) -> None:
        """Redefine a tensor if it is distributed in another way than the previous tensor of that name."""
        if placements_of(tensor) != state.placements:
            self.define_tensor(state, tensor)

    def define_freezing(self, state: StateEntry, tensor: torch.Tensor) -> None:
        """Redefine a parameter if it was frozen or unfrozen, but at most twice: it may happen in each iteration."""
        if tensor.requires_grad is not state.requires_grad:
            state.requires_grad = tensor.requires_grad
            state.freezings += 1
            if state.freezings <= _MOST_FREEZINGS:
                self.define_tensor(state, tensor)

    def define_state(self, states: Sequence[tuple[StateEntry, torch.Tensor]]) -> None:
        """Send the definitions of parameters and buffers, with their statistics."""
        if not states:
            return
        with unobserved() as readable:
            statistics = summarize([tensor if readable else None for _, tensor in states])
            for (state, tensor), numbers in zip(states, statistics, strict=True):
                state.version, state.data_ptr = marks_of(tensor)
                state.statistics = numbers
                state.suspected = not readable  # The next look then finds the numbers.
                self.define_tensor(state, tensor)

    def define_new_state(self, entry: ModuleEntry, module: nn.Module) -> bool:
        """Register parameters and buffers that `module` got since the last look, and return whether there are any."""
        registered = module.__dict__
        count = len(registered.get("_parameters") or ()) + len(registered.get("_buffers") or ())
        if count == entry.registered:
            return False
        entry.registered = count
        states = self._registry.add_state(entry)
        if any(not state.is_buffer for state, _ in states):
            self.define_holders([entry])
        self.define_state(states)
        return bool(states)


def _settings_of(entry: ModuleEntry) -> dict[str, Setting]:
    """The settings of one of torch's own modules. Attributes of the program's modules are not recorded."""
    module = entry.module()
    if module is None or not type(module).__module__.startswith("torch."):
        return {}
    plain = {name: value for name, value in vars(module).items() if name[:1] != "_" and name != "training"}
    return plain_settings(plain)


def _kind(state: StateEntry) -> Callable[..., Parameter | Buffer | OptimizerState]:
    """The class of the event that defines a tensor."""
    if isinstance(state, OptimizerStateEntry):
        return functools.partial(OptimizerState, parameter=state.of.id, optimizer=state.type_name)
    return Buffer if state.is_buffer else Parameter


def _module_of_type(module: nn.Module) -> str:
    """The Python module that defines the class of `module`; "" if its `__module__` is not a string."""
    defined_in = getattr(type(module), "__module__", "")
    return defined_in if isinstance(defined_in, str) else ""


def _is_call_of_torch(module: nn.Module) -> bool:
    """Whether the `__call__` of a module is torch's, which runs hooks, and not defined by its own class."""
    defined_in: str = getattr(type(module).__call__, "__module__", None) or ""
    return defined_in.partition(".")[0] == "torch"


def _elements(module: nn.Module) -> int:
    """The number of elements of the direct parameters of `module`. Lazy parameters have none."""
    registered = module.__dict__.get("_parameters")
    total = 0
    for _, tensor in list(registered.items()) if registered is not None else ():
        if tensor is not None:
            try:
                total += numel(tensor)
            except (ValueError, RuntimeError):
                continue
    return total
