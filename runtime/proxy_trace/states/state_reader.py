"""Follows the state of a model through the trace of one process, from optimizer step to optimizer step.

A reader can be left at the end of a step, as a `Standing` and a `State`, and gone on with in another process. It passes
over records of kinds that it has no need of.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from pathlib import Path  # noqa: TC003  A field of a `NamedTuple`.
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from proxy_trace.errors import UnreadableFileError
from proxy_trace.reading.bounded_lines import BoundedLines, open_regular
from proxy_trace.reading.names import MOST_BYTES, MOST_DEFINITIONS
from proxy_trace.reading.trace import KINDS, NO_RECORD
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy_trace.reading.report import Report

NO_STEP: Final = -1
"""In place of a step: before the first one, in a trace that has none, or not known yet."""

_NEEDED: Final = (
    events.StateTensor,
    events.Update,
    events.Backward,
    events.OptimizerStep,
    events.OptimizerStepEnd,
    events.RunEnd,
)
_BEGINNING: Final = b'{"kind":"'
"""How a line begins that the runtime has written; its kind follows."""

_LETTERS: Final = 4


class _Kinds:
    """Which records are decoded, and which lines need not be.

    Attributes:
        decode: decodes a line.
        passed_over: the first letters of kinds that are not needed, as far as no other kind begins so.
    """

    def __init__(self, needed: tuple[type, ...]) -> None:
        classes = [event_class for event_class in KINDS.values() if issubclass(event_class, needed)]
        letters = {event_class: f'{kind}"'.encode()[:_LETTERS] for kind, event_class in KINDS.items()}
        self.decode = msgspec.json.Decoder(reduce(or_, classes)).decode
        self.passed_over = frozenset(letters.values()) - {letters[event_class] for event_class in classes}


OPTIMIZER_STATE: Final = "optimizer state"
_PARTS: Final[dict[type[events.StateTensor], str]] = {
    events.Parameter: "parameter",
    events.Buffer: "buffer",
    events.OptimizerState: OPTIMIZER_STATE,
}


class Part(NamedTuple):
    """What a tensor of state is: those of which all this is the same, in several processes, should hold the same."""

    kind: str
    """ "parameter", "buffer" or "optimizer state"."""
    type: str
    placements: str


class Held(NamedTuple):
    """What a process held under a name from the end of `step` on; nothing any more, if there is no `part`.

    It was given these values in the step `since`, or, where that is not told, behind the last step before it.
    """

    step: int
    since: int
    part: Part | None
    statistics: events.Statistics | None


class Found(NamedTuple):
    """The gradient that a step found."""

    step: int
    part: Part
    statistics: events.Statistics | None


_GONE: Final = Held(NO_STEP, NO_STEP, None, None)


class State(NamedTuple):
    """What a process holds: tables only, so that those of several processes can share what is the same in them.

    Attributes:
        names: what the ids stand for.
        held: by name, as of the last step that ended.
        start: the statistics of each parameter and buffer when training began, or went on after it was made.
        not_started: the names of those that training has not begun with.
        pending: what has changed since the last step, by name; its `step` is not known yet.
        gradients: those found since the last step, by name; None for a parameter that had none.
        unvalued: tensors of optimizer state of whose values there has been no record so far, by name.
    """

    names: dict[int, str]
    held: dict[str, Held]
    start: dict[str, events.Statistics | None]
    not_started: dict[str, None]
    pending: dict[str, Held]
    gradients: dict[str, events.Statistics | None]
    unvalued: dict[str, Part]

    @classmethod
    def empty(cls) -> State:
        """That of a process of which nothing has been read."""
        return cls({}, {}, {}, {}, {}, {}, {})


class Standing(NamedTuple):
    """Where a reader stands.

    Attributes:
        path: the trace.
        members: which of the processes that are read together say what is in this trace.
        position: how many bytes of the file have been read.
        definition_bytes: how long the definitions among them are.
        step: the step that ended last.
        ahead: the step that ended after it, of which `State.pending` tells, if that has been read; else `NO_STEP`.
        last_complete: the step that ended last in the file so far, also where steps are counted anew.
        has_ended: whether the trace has been read to its end.
        end: how the process ended, as `RunEnd` says it; "" if the trace does not.
    """

    path: Path
    members: int
    position: int = 0
    definition_bytes: int = 0
    step: int = NO_STEP
    ahead: int = NO_STEP
    last_complete: int = NO_STEP
    has_ended: bool = False
    end: str = ""


class StateReader:
    """Goes on from where a process stands in its trace.

    Attributes:
        state: what the process holds.
        steps: the steps that ended, in ascending order.
        histories: of each name that was given something in one of them, what it held before and after each.
        gradients: the gradients that they found, by name.
        entries: how many entries there are in both.
    """

    def __init__(self, standing: Standing, state: State, *, with_gradients: bool = True) -> None:
        """Go on.

        Args:
            standing: where.
            state: what the process holds there, which is changed.
            with_gradients: whether to read gradients.
        """
        self._kinds = _Kinds((*_NEEDED, events.Gradient) if with_gradients else _NEEDED)
        self.state = state
        self.steps: list[int] = []
        self.histories: dict[str, list[Held]] = {}
        self.gradients: dict[str, list[Found]] = {}
        self.entries = 0
        self._path, self._members = standing.path, standing.members
        self._position, self._definition_bytes = standing.position, standing.definition_bytes
        self._step, self._ahead = standing.step, standing.ahead
        self._last_complete, self._has_ended, self._end = standing.last_complete, standing.has_ended, standing.end

    @property
    def standing(self) -> Standing:
        """Where the reader stands now."""
        return Standing(
            self._path,
            self._members,
            self._position,
            self._definition_bytes,
            self._step,
            self._ahead,
            self._last_complete,
            self._has_ended,
            self._end,
        )

    def held_now(self) -> dict[str, Held]:
        """What each name stands for, also since the last step."""
        return {**self.state.held, **self.state.pending}

    def read(self, until: int, most: int, report: Report) -> bool:
        """Go on to the end of the last step before `until`, or of the trace.

        Steps only count if their number is larger than that of all before: after a fork, or with a second tracer, they
        are counted anew.

        Args:
            until: the first step that is not wanted.
            most: give up when there are more entries than that, of several steps.
            report: called now and then with the number of bytes read since.

        Returns:
            Whether it came so far; if not, all before the last of `steps` would have been little enough.

        Raises:
            UnreadableFileError: if the file system refuses.
        """
        if self._ahead != NO_STEP:
            if self._ahead >= until:
                return True
            step, self._ahead = self._ahead, NO_STEP
            self._commit(step)
            if step == until - 1:
                return True
        try:
            with open_regular(self._path) as file:
                file.seek(self._position)
                return self._read_lines(BoundedLines(file), until, most, report)
        except OSError as error:
            raise UnreadableFileError(self._path, error) from error

    def _read_lines(self, lines: BoundedLines, until: int, most: int, report: Report) -> bool:
        decode, passed_over = self._kinds.decode, self._kinds.passed_over
        letters = slice(len(_BEGINNING), len(_BEGINNING) + _LETTERS)
        beginning = _BEGINNING
        # Kept here alone: the reader, and all that it has found, would else wait for the garbage collector.
        takers: dict[type, Callable[[Any], None]] = {
            events.Update: self._update,
            events.Gradient: self._gradient,
            events.Backward: self._note_start,
            events.OptimizerStep: self._note_start,
            events.RunEnd: self._run_end,
        }
        began, reported = self._position, 0
        for block in lines.blocks():
            for place, line in enumerate(block, 1):
                if line[letters] in passed_over and line.startswith(beginning):
                    continue
                try:
                    event = decode(line)
                except NO_RECORD:
                    continue
                take = takers.get(type(event))
                if take is not None:
                    take(event)
                elif isinstance(event, events.StateTensor):
                    self._define(event, len(line))
                elif isinstance(event, events.OptimizerStepEnd):
                    is_done = self._end_step(event.step, until)
                    has_given_up = self.entries > most and len(self.steps) > 1
                    if is_done or has_given_up:
                        self._position = began + lines.bytes_given - sum(map(len, block[place:])) - len(block[place:])
                        report(lines.bytes_read - reported)
                        return not has_given_up
            report(lines.bytes_read - reported)
            reported = lines.bytes_read
        self._finish()
        return True

    def _end_step(self, step: int, until: int) -> bool:
        """Take note of the end of a step; whether it is the last that is wanted, or lies behind that."""
        self._last_complete = step
        if step <= self._step:
            self.state.gradients.clear()
            return False
        if step >= until:
            self._ahead = step
            return True
        self._commit(step)
        return step == until - 1

    def _commit(self, step: int) -> None:
        """All that is pending became so in `step`."""
        state = self.state
        held = state.held
        for name, (_, since, part, statistics) in state.pending.items():
            history = self.histories.get(name)
            if history is None:
                before = held.get(name)
                history = self.histories[name] = [] if before is None else [before]
            now = Held(step, since, part, statistics)
            history.append(now)
            if part is None:
                held.pop(name, None)
            else:
                held[name] = now
        for name, statistics in state.gradients.items():
            part = held[name].part if name in held else None
            if part is not None:
                self.gradients.setdefault(name, []).append(Found(step, part, statistics))
        self.entries += len(state.pending) + len(state.gradients)
        state.pending.clear()
        state.gradients.clear()
        self.steps.append(step)
        self._step = step

    def _finish(self) -> None:
        """Take note of what came behind the last step; where there was none, it is told as one."""
        self._note_start()
        self._has_ended = True
        if self._step == NO_STEP:
            self._commit(NO_STEP)

    def _current(self, name: str) -> Held | None:
        """What a name holds now."""
        current = self.state.pending.get(name) or self.state.held.get(name)
        return None if current is None or current.part is None else current

    def _update(self, event: events.Update) -> None:
        name = self.state.names.get(event.tensor, "")
        current = self._current(name)
        part = self.state.unvalued.pop(name, None) if current is None else current.part
        if part is not None:
            self.state.pending[name] = Held(NO_STEP, event.step, part, event.statistics)

    def _gradient(self, event: events.Gradient) -> None:
        name = self.state.names.get(event.tensor)
        if name is not None:
            self.state.gradients[name] = event.statistics

    def _note_start(self, _: events.Event | None = None) -> None:
        """Training begins, or goes on: what new state is now, it was loaded with or initialised to."""
        for name in self.state.not_started:
            current = self._current(name)
            self.state.start[name] = None if current is None else current.statistics
        self.state.not_started.clear()

    def _run_end(self, event: events.RunEnd) -> None:
        self._end = f"{event.reason} {event.error}".rstrip()

    def _define(self, event: events.StateTensor, size_bytes: int) -> None:
        state, name = self.state, event.name
        before = state.names.get(event.id)
        self._definition_bytes += size_bytes
        if self._definition_bytes > MOST_BYTES or (before is None and len(state.names) >= MOST_DEFINITIONS):
            return
        part = Part(_PARTS[type(event)], event.type, event.placements)
        is_of_model = part.kind != OPTIMIZER_STATE
        if not is_of_model and event.statistics is None and self._current(before or name) is None:
            state.unvalued.pop(before or name, None)
            state.unvalued[name] = part
            state.names[event.id] = name
            return
        if before is not None and before != name:  # A module found to be part of a larger one.
            known = self._current(before) or Held(NO_STEP, self._step + 1, None, None)
            state.pending[before] = _GONE
            if before in state.start:
                state.start[name] = state.start.pop(before)
            if before in state.not_started:
                del state.not_started[before]
                state.not_started[name] = None
        else:
            known = self._current(name) or Held(NO_STEP, self._step + 1, None, event.statistics)
        state.pending[name] = Held(NO_STEP, known.since, part, known.statistics)
        if before is None and is_of_model:
            state.not_started[name] = None
        state.names[event.id] = name
