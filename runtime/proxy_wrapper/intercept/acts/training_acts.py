"""Observes what a program does to train besides calls, backward passes and steps.

It creates optimizers, advances learning rate schedulers, and loads weights. PyTorch has no hook for these, so a
function behind each is replaced where torch looks it up: the one that prepares an optimizer's class, and the one in
which every subclass of scheduler computes its rates.
"""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

import torch
from msgspec.structs import replace
from torch import nn

from proxy_wrapper.code_lines.own_weights import explain_own_weights
from proxy_wrapper.events import Load, RateReduced, SchedulerStep, SourcePattern
from proxy_wrapper.intercept.attaching.call_sites import hide_frames, uncounted
from proxy_wrapper.intercept.attaching.replacing import ReplacingInterceptor, Target
from proxy_wrapper.known.plain_settings import plain_settings
from proxy_wrapper.levels import INFO
from proxy_wrapper.program_code.assigned_lines import words_of_code, words_of_line
from proxy_wrapper.program_code.called_functions import bodies_around, body_of, reachable
from proxy_wrapper.source_patterns.unread_schedulers import UNREAD, unread_scheduler
from proxy_wrapper.values.describe import PLAIN
from proxy_wrapper.values.torch_functions import data_ptr, numel

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator, Mapping
    from types import CodeType, FrameType

    from proxy_wrapper.events import Setting
    from proxy_wrapper.intercept.state.updates import Updates
    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.program_code.called_functions import Body
    from proxy_wrapper.tracer import Tracer

_MOST_WAITING: Final = 100
"""The most kept loads of modules that are not yet proxied."""
_MOST_KEYS: Final = 100
"""The most missing and unexpected keys in a record."""
_FEWEST_COUNTED: Final = 8
"""From this number of advances on, one is recorded at each power of two."""


class _Advanced:
    """What was last recorded of a scheduler: its number, its count of advances, and the last record.

    `made` is the location where it was created, or 0 if unknown. For `ReduceLROnPlateau`, `first` is the best value
    after the first advance, and `reduced` counts how often it has lowered the rate.
    """

    __slots__ = ("count", "first", "id", "made", "reduced", "reported")

    def __init__(self, number: int, made: int = 0) -> None:
        self.id = number
        self.made = made
        self.count = self.reduced = 0
        self.first: object = None
        self.reported: tuple[int, str, int] | None = None


class TrainingActs(ReplacingInterceptor):
    """Creates `SchedulerStep`, `RateReduced` and `Load` events, and notes where optimizers are created."""

    def __init__(self, tracer: Tracer, updates: Updates) -> None:
        super().__init__(tracer)
        self._updates = updates
        self._schedulers: weakref.WeakKeyDictionary[Any, _Advanced] = weakref.WeakKeyDictionary()
        # Loads of modules before they were proxied.
        self._waiting: list[tuple[weakref.ref[nn.Module], Load]] = []
        self._made = 0
        # Why modules load their own weights, by the location of the load and the module's number.
        self._own_weights: dict[tuple[int, int], tuple[int, tuple[str, ...]]] = {}
        # The lines that create schedulers and whose files are read already.
        self._read: set[tuple[CodeType, int]] = set()

    def _targets(self) -> tuple[Target, ...]:
        return (
            Target(torch.optim.Optimizer, "_patch_step_function", self._optimizer_maker),
            Target(torch.optim.lr_scheduler, "_enable_get_lr_call", self._rate_computer),
            Target(torch.optim.lr_scheduler.ReduceLROnPlateau, "__init__", self._plateau_maker),
            Target(torch.optim.lr_scheduler.ReduceLROnPlateau, "step", self._plateau_waiter),
            Target(nn.Module, "load_state_dict", self._loader),
            Target(nn.parallel.DistributedDataParallel, "__init__", self._wrapper_maker),
        )

    # Optimizers.

    def _optimizer_maker(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def _patch_step_function(optimizer: torch.optim.Optimizer) -> None:
            original(optimizer)
            self._note(self._optimizer_made, optimizer)

        return _patch_step_function

    def _optimizer_made(self, optimizer: torch.optim.Optimizer) -> None:
        self._updates.note_made(optimizer, self._tracer.locator.locate(3))
        self._send_waiting()

    # Schedulers.

    def _rate_computer(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def _enable_get_lr_call(scheduler: Any) -> Any:
            self._note(self._scheduler_steps, scheduler)
            return original(scheduler)

        return _enable_get_lr_call

    def _scheduler_steps(self, scheduler: Any) -> None:
        """Record that a scheduler is advanced, except by its own `__init__`, which sets the first rate."""
        optimizer = getattr(scheduler, "optimizer", None)
        if not isinstance(optimizer, torch.optim.Optimizer):
            return
        tracer = self._tracer
        known = self._schedulers.get(scheduler)
        if getattr(scheduler, "_step_count", 0) <= 1:
            if known is None:
                self._scheduler_made(scheduler)
            return
        last_event = self._updates.last_event_of(optimizer)
        if last_event is None:
            return
        if known is None:
            known = self._number_scheduler(scheduler, 0)
        location = tracer.locator.locate(3)
        count, known.count = known.count, known.count + 1
        reported = (location, last_event.last, hash(tuple(tracer.channels)))
        if reported == known.reported and not (count >= _FEWEST_COUNTED and _is_power_of_two(count)):
            return
        is_first = known.reported is None or known.reported[2] != reported[2]
        settings = _public_settings(scheduler) if is_first else {}
        words = self._words_of_functions(scheduler) if is_first else ()
        known.reported = reported
        thread, name = tracer.thread, type(scheduler).__name__
        now = tracer.now_us()
        event = SchedulerStep(
            now,
            tracer.step,
            0,
            location,
            thread.number,
            thread.stage,
            known.id,
            name,
            last_event.id,
            count,
            last_event.last,
            known.made,
            settings,
            words,
        )
        tracer.broadcast(event, location, level=INFO, also=(known.made,))

    def _words_of_functions(self, scheduler: Any) -> tuple[str, ...]:
        """The names and strings that the functions of a `LambdaLR` read, and the program's functions that they call."""
        functions = vars(scheduler).get("lr_lambdas") if type(scheduler) is torch.optim.lr_scheduler.LambdaLR else None
        words: dict[str, None] = {}
        for function in functions if type(functions) is list else ():
            body = _body_called(function)
            for called in () if body is None else reachable(body, self._tracer.locator.is_user_code):
                words.update(dict.fromkeys(words_of_code(called.body.code)))
        return tuple(words)

    def _plateau_maker(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def make_scheduler(scheduler: Any, *args: Any, **kwargs: Any) -> None:
            try:
                original(scheduler, *args, **kwargs)
            except BaseException as error:
                hide_frames(error)
                raise
            self._note(self._plateau_made, scheduler)

        return make_scheduler

    def _plateau_made(self, scheduler: Any) -> None:
        self._scheduler_made(scheduler)

    def _scheduler_made(self, scheduler: Any) -> None:
        """Number a new scheduler, and report it if the program never advances it."""
        tracer = self._tracer
        location, frame = tracer.locator.locate(4), tracer.locator.user_frame(4)
        self._number_scheduler(scheduler, location)
        self._updates.note_scheduler(scheduler, location)
        if frame is None or (frame.f_code, frame.f_lineno) in self._read:
            return
        self._read.add((frame.f_code, frame.f_lineno))
        is_seen_elsewhere = frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__"
        tree = None if is_seen_elsewhere else tracer.functions.file_of(frame.f_code)
        name = "" if tree is None else unread_scheduler(tree, frame.f_lineno, self._files_with)
        if name:
            thread = tracer.thread
            event = SourcePattern(
                tracer.now_us(), tracer.step, 0, 0, thread.number, thread.stage, UNREAD, (name,), location
            )
            tracer.broadcast(event, 0, level=INFO, also=(location,))

    def _files_with(self, word: str) -> list[ast.Module] | None:
        """The files of the program whose text has a word; None if that is unknown."""
        files = self._tracer.locator.user_files()
        return self._tracer.functions.files_with(word, files) if files else None

    def _plateau_waiter(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def step(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            before = _first_rate(scheduler)
            try:
                result = original(scheduler, *args, **kwargs)
            except BaseException as error:
                hide_frames(error)
                raise
            self._note(self._plateau_watched, scheduler, before)
            return result

        return step

    def _plateau_watched(self, scheduler: Any, before: object) -> None:
        """Record that a `ReduceLROnPlateau` has lowered the rate."""
        known = self._schedulers.get(scheduler) or self._number_scheduler(scheduler, 0)
        if not known.count:
            known.first = scheduler.best
        known.count += 1
        last_event = self._updates.last_event_of(scheduler.optimizer)
        if last_event is None or _first_rate(scheduler) == before:
            return
        known.reduced += 1
        if not _is_power_of_two(known.reduced):
            return
        tracer = self._tracer
        frame = tracer.locator.user_frame(3)
        location = tracer.locator.locate(3)
        thread = tracer.thread
        event = RateReduced(
            tracer.now_us(),
            tracer.step,
            0,
            location,
            thread.number,
            thread.stage,
            known.id,
            last_event.id,
            str(scheduler.mode),
            known.made,
            scheduler.best == known.first,
            () if frame is None else words_of_line(frame),
        )
        tracer.broadcast(event, location, level=INFO, also=(known.made,))

    def _number_scheduler(self, scheduler: Any, made: int) -> _Advanced:
        self._made += 1
        known = self._schedulers[scheduler] = _Advanced(self._made, made)
        return known

    # Wrappers.

    def _wrapper_maker(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def make_wrapper(wrapper: nn.Module, module: nn.Module, *args: Any, **kwargs: Any) -> None:
            try:
                original(wrapper, module, *args, **kwargs)
            except BaseException as error:
                hide_frames(error)
                raise
            self._note(self._tracer.wrapped_models.add, module)

        return make_wrapper

    # Weights.

    def _loader(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @uncounted
        def load_state_dict(module: nn.Module, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
            given: list[bool] = []
            self._note(self._look_at_weights, module, state_dict, given)
            try:
                result = original(module, state_dict, *args, **kwargs)
            except BaseException as error:
                hide_frames(error)
                raise
            if given:
                strict = args[0] if args else kwargs.get("strict", True)
                self._note(self._loads, module, state_dict, bool(strict), result, given[0])
            return result

        return load_state_dict

    def _look_at_weights(self, module: nn.Module, state_dict: Mapping[str, Any], given: list[bool]) -> None:
        """Append to `given` whether a module is loaded with its own tensors only; nothing if that is not recorded."""
        entry = self._tracer.registry.module_entry(module)
        if entry is None or entry.level <= INFO:
            given.append(_are_own(module, state_dict))

    def _loads(self, module: nn.Module, state_dict: Mapping[str, Any], strict: bool, result: Any, is_own: bool) -> None:
        tracer = self._tracer
        entry: ModuleEntry | None = tracer.registry.module_entry(module)
        missing, unexpected = getattr(result, "missing_keys", None), getattr(result, "unexpected_keys", None)
        if not (isinstance(missing, list) and isinstance(unexpected, list)):
            return
        location = tracer.locator.locate(3)
        thread = tracer.thread
        number = 0 if entry is None else entry.id
        made, names = self._explained(module, number, location, tracer.locator.user_frame(3) if is_own else None)
        event = Load(
            tracer.now_us(),
            tracer.step,
            number,
            location,
            thread.number,
            thread.stage,
            max(0, len(state_dict) - len(unexpected)),
            tuple(map(str, missing[:_MOST_KEYS])),
            tuple(map(str, unexpected[:_MOST_KEYS])),
            len(missing),
            len(unexpected),
            strict,
            is_own,
            made,
            names,
        )
        if entry is not None:
            entry.channel.define_location(made)
            entry.channel.emit(event, location)
        else:
            self._waiting.append((weakref.ref(module), event))
            del self._waiting[:-_MOST_WAITING]

    def _explained(
        self, module: nn.Module, number: int, location: int, frame: FrameType | None
    ) -> tuple[int, tuple[str, ...]]:
        """Why a module loads its own weights: the location of the line, and the names of the module.

        `frame` is the function that does; None if the weights are others. Each place is read once for each module.
        """
        if frame is None:
            return 0, ()
        key = (location, number)
        if key not in self._own_weights:
            tracer = self._tracer
            bodies = bodies_around(frame, tracer.locator.is_user_code)
            own = explain_own_weights(frame, module, bodies, tracer.functions.find_any)
            made = tracer.locator.line(own.at)
            self._own_weights[key] = made, own.names if made else ()
        return self._own_weights[key]

    def _send_waiting(self) -> None:
        """Record earlier loads of modules that have been proxied since."""
        waiting, self._waiting = self._waiting, []
        for ref, event in waiting:
            module = ref()
            entry = None if module is None else self._tracer.registry.module_entry(module)
            if entry is not None and entry.level <= INFO:
                entry.channel.define_location(event.made)
                entry.channel.emit(replace(event, module=entry.id), event.location)
            elif module is not None and entry is None:
                self._waiting.append((ref, event))


def _body_called(function: Any) -> Body | None:
    """The code that runs when a function, a method or an object with `__call__` is called; None if it is not Python."""
    if type(function) is MethodType:
        return body_of(function.__func__)
    return body_of(function) or body_of(vars(type(function)).get("__call__"))


def _public_settings(scheduler: Any) -> dict[str, Setting]:
    """The settings of a scheduler, as far as JSON can represent them."""
    attributes = vars(scheduler) if hasattr(scheduler, "__dict__") else {}
    return plain_settings({name: value for name, value in attributes.items() if not name.startswith("_")})


def _first_rate(scheduler: Any) -> object:
    """The learning rate of the first group of a scheduler's optimizer, if it is a plain number."""
    groups = getattr(getattr(scheduler, "optimizer", None), "param_groups", None)
    rate = groups[0].get("lr") if groups else None
    return rate if type(rate) is float else None


def _is_power_of_two(count: int) -> bool:
    return count & (count - 1) == 0


def _are_own(module: nn.Module, state_dict: Mapping[str, Any]) -> bool:
    """Whether every tensor in `state_dict` is the one that `module` has under its name.

    Only plain dicts are read: other mappings may read a file for each tensor.
    """
    if type(state_dict) not in (dict, OrderedDict):
        return False
    own = dict(_own_tensors(module))
    is_any = False
    for name, tensor in state_dict.items():
        mine = own.get(name)
        if mine is None or type(tensor) not in PLAIN or type(mine) not in PLAIN or not numel(mine):
            continue
        address = data_ptr(tensor)
        if not address or address != data_ptr(mine):
            return False
        is_any = True
    return is_any


def _own_tensors(
    module: nn.Module, prefix: str = "", above: frozenset[int] = frozenset()
) -> Iterator[tuple[str, torch.Tensor]]:
    """The parameters and buffers of a module by name, found without calling the program's methods."""
    for name, tensor in (*module._parameters.items(), *module._buffers.items()):
        if tensor is not None:
            yield f"{prefix}{name}", tensor
    above |= {id(module)}
    for name, below in module._modules.items():
        if below is not None and id(below) not in above:
            yield from _own_tensors(below, f"{prefix}{name}.", above)
