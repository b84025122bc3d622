"""Selects events."""

from __future__ import annotations

import fnmatch
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_trace.errors import StepRangeError, UnknownKindError
from proxy_trace.reading.trace import KINDS
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy_trace.reading.names import Names
    from proxy_wrapper.events import AnyEvent, Event

_STEPS: Final = re.compile(r"(\d*)-(\d*)|(\d+)")
_ALL_BUT_LOCATIONS: Final = frozenset(KINDS.values()) - {events.Location}


class StepRange(NamedTuple):
    """Steps from `first` to `last`, both included; `last` is None for an open range."""

    first: int
    last: int | None

    @classmethod
    def parse(cls, text: str) -> StepRange:
        """Parse "7", "2-5", "100-" and "-10".

        Raises:
            StepRangeError: for anything else, and for a range that ends before it begins.
        """
        match = _STEPS.fullmatch(text.strip())
        if match is None or text.strip() == "-":
            raise StepRangeError(text)
        first, last, single = match.groups()
        if single:
            return cls(int(single), int(single))
        steps = cls(int(first or 0), int(last) if last else None)
        if steps.last is not None and steps.last < steps.first:
            raise StepRangeError(text)
        return steps

    def has(self, step: int) -> bool:
        """Whether `step` is in the range."""
        return self.first <= step and (self.last is None or step <= self.last)


class Period:
    """A part of a run: the steps in a range (`steps`, None for all), in stages that match a glob (`stages`)."""

    def __init__(self, steps: StepRange | None = None, stages: Sequence[str] = ()) -> None:
        """Select all steps if `steps` is None, and all stages if `stages` has no glob; commas separate globs."""
        self.steps = steps
        self.stages = stages
        self._is_stage = stage_matcher(stages)

    def has(self, event: AnyEvent) -> bool:
        """Whether `event` belongs to it. Definitions and the end of a file belong to every part."""
        if not isinstance(event, events.Happening) or isinstance(event, events.RunEnd):
            return True
        return (self.steps is None or self.steps.has(event.step)) and (
            self._is_stage is None or self._is_stage(event.stage)
        )

    def __str__(self) -> str:
        words = []
        if self.steps is not None:
            first, last = self.steps
            words.append(
                f"step {first}" if first == last else f"steps {first} to {'the last' if last is None else last}"
            )
        if self.stages:
            words.append(f"stage {', '.join(self.stages)}")
        return ", ".join(words)


class Selection:
    """A selection of events: those that meet every given condition."""

    def __init__(
        self,
        kinds: Sequence[str] = (),
        names: Sequence[str] = (),
        modules: Sequence[str] = (),
        steps: StepRange | None = None,
        stages: Sequence[str] = (),
    ) -> None:
        """Create the selection.

        Args:
            kinds: the kinds of events; each text may hold several, separated by commas. If empty, every kind but
                `location`, because events show their locations anyway.
            names: globs, one of which must match something that the event names (see `names_in`).
            modules: globs, one of which must match the called or enclosing module.
            steps: only events at these steps, without definitions.
            stages: globs, possibly several separated by commas; only events in a matching stage, without definitions.

        Raises:
            UnknownKindError: for a kind that does not exist.
        """
        self._classes = frozenset(KINDS[kind] for kind in wanted_kinds(kinds)) or _ALL_BUT_LOCATIONS
        self._name = GlobMatcher(names) if names else None
        self._module = GlobMatcher(modules) if modules else None
        self._steps = steps
        self._is_stage = stage_matcher(stages)

    def has(self, event: AnyEvent, names: Names) -> bool:
        """Whether `event` is selected; `names` resolves its ids."""
        if type(event) not in self._classes:
            return False
        if self._steps is not None and not (isinstance(event, events.Happening) and self._steps.has(event.step)):
            return False
        if self._is_stage is not None and not (isinstance(event, events.Happening) and self._is_stage(event.stage)):
            return False
        if self._module is not None and not self._module(module_of(event, names)):
            return False
        return self._name is None or any(map(self._name, names_in(event, names)))


def wanted_kinds(kinds: Iterable[str]) -> frozenset[str]:
    """The kinds in texts that hold several, separated by commas.

    Raises:
        UnknownKindError: for a kind that does not exist.
    """
    wanted = frozenset(kind.strip() for text in kinds for kind in text.split(","))
    for kind in sorted(wanted):
        if kind not in KINDS:
            raise UnknownKindError(kind, KINDS)
    return wanted


def stage_matcher(stages: Iterable[str]) -> GlobMatcher | None:
    """A matcher of wanted stages, from globs separated by commas; None if all are wanted."""
    globs = [glob.strip() for text in stages for glob in text.split(",")]
    return GlobMatcher(globs) if globs else None


class GlobMatcher:
    """Tells whether a name matches one of several globs. Results are cached."""

    def __init__(self, globs: Sequence[str]) -> None:
        self._globs = globs
        match = re.compile("|".join(map(fnmatch.translate, globs))).match
        self._matches = lru_cache(maxsize=1 << 16)(lambda name: match(name) is not None)

    def __call__(self, name: str) -> bool:
        """Whether `name` matches; case counts."""
        return self._matches(name)

    def __reduce__(self) -> tuple[type[GlobMatcher], tuple[Sequence[str]]]:
        """Pickle the globs without the cache."""
        return type(self), (self._globs,)


def kind_of(event: Event) -> str:
    """The kind of an event as in a trace, such as "call_module"."""
    return str(event.__struct_config__.tag)


def module_of(event: Event, names: Names) -> str:
    """The name of the module that an event defines, is about, or happens in; "" for none."""
    if isinstance(event, events.Module):
        return event.name
    if isinstance(event, (events.Happening, events.StateTensor)):
        return names.module_name(event.module)
    return ""


def names_in(event: Event, names: Names) -> list[str]:
    """Everything in an event that has a name: modules, tensors, functions, attributes, optimizers."""
    if isinstance(event, (events.CallModule, events.ReturnModule)):
        return [names.module_name(event.module)]
    if isinstance(event, (events.Gradient, events.Update, events.NonFinite)):
        name = names.tensor_name(event.tensor) if event.tensor else names.module_name(event.module)
        tensor = names.tensors.get(event.tensor)
        return [name, *tensor.aliases] if tensor else [name]
    if isinstance(event, events.CallFunction):
        return [event.target, *event.inputs, *event.outputs]
    if isinstance(event, events.ReadValue):
        return [event.target, *event.inputs]
    if isinstance(event, (events.GetAttr, events.SetAttr, events.DelAttr)):
        return [event.target, event.owner]
    if isinstance(event, events.StateTensor):
        return [event.name, *event.aliases]
    for field in ("name", "optimizer", "function"):
        name = getattr(event, field, "")
        if name:
            return [name]
    return []
