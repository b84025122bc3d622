"""Follows the state of a model through the trace of one process, from optimizer step to optimizer step.

Reading can stop at the end of a step, and continue in another process from a `Standing` and a `State`. Records of
other kinds are skipped.
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
"""Stands for a step: before the first one, in a trace without steps, or not known yet."""

_NEEDED: Final = (
    events.StateTensor,
    events.Update,
    events.Backward,
    events.OptimizerStep,
    events.OptimizerStepEnd,
    events.RunEnd,
)
_BEGINNING: Final = b'{"kind":"'
"""The prefix of a line written by the runtime; its kind follows."""

_LETTERS: Final = 4


class _Kinds:
    """The records to decode, and the lines to skip.

    Attributes:
        decode: decodes a line.
        passed_over: first letters of unneeded kinds that no needed kind begins with.
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
    """The identity of a state tensor: tensors of several processes with equal identities should have equal values."""

    kind: str
    """ "parameter", "buffer" or "optimizer state"."""
    type: str
    placements: str


class Held(NamedTuple):
    """The value under a name from the end of `step` on; none if `part` is None.

    It was set at the step `since`; if unknown, after the last step before it.
    """

    step: int
    since: int
    part: Part | None
    statistics: events.Statistics | None


class Found(NamedTuple):
    """The gradient at a step."""

    step: int
    part: Part
    statistics: events.Statistics | None


_GONE: Final = Held(NO_STEP, NO_STEP, None, None)


class State(NamedTuple):
    """The state of a process. It consists of tables, so that several processes can share equal ones.

    Attributes:
        names: the names of the ids.
        held: the values by name, as of the last step that ended.
        start: the statistics of each parameter and buffer when training began, or continued after it was created.
        not_started: the names that training has not begun with.
        pending: the changes since the last step, by name; their `step` is not known yet.
        gradients: the gradients since the last step, by name; None for a parameter without one.
        unvalued: tensors of optimizer state without a recorded value so far, by name.
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
        """The state before anything is read."""
        return cls({}, {}, {}, {}, {}, {}, {})


class Standing(NamedTuple):
    """The position of a reader.

    Attributes:
        path: the trace.
        members: the set of processes whose content equals this trace.
        position: the number of bytes read.
        definition_bytes: the length of the definitions among them.
        step: the last step that ended.
        ahead: the step that ended after it, to which `State.pending` belongs, if it has been read; else `NO_STEP`.
        last_complete: the last step that ended in the file so far, even if steps were counted from 0 again.
        has_ended: whether the trace has been read to its end.
        end: how the process ended, as in `RunEnd`; "" if unknown.
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
    """Continues to read a process from its position in the trace.

    Attributes:
        state: the state of the process.
        steps: the steps that ended, in ascending order.
        histories: for each name that was changed in one of the steps, its values before and after each.
        gradients: the gradients at the steps, by name.
        entries: the number of entries in both.
    """

    def __init__(self, standing: Standing, state: State, *, with_gradients: bool = True) -> None:
        """Continue reading.

        Args:
            standing: the position.
            state: the state there, which is modified.
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
        """The present position."""
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
        """The present value of each name, including changes since the last step."""
        return {**self.state.held, **self.state.pending}

    def read(self, until: int, most: int, report: Report) -> bool:
        """Continue to the end of the last step before `until`, or of the trace.

        A step only counts if its number exceeds all earlier ones: after a fork, or with a second tracer, counting
        starts again.

        Args:
            until: the first unwanted step.
            most: stop if several steps have more entries than this.
            report: called now and then with the number of bytes read since.

        Returns:
            Whether it got so far. If not, all steps before the last of `steps` would have had few enough entries.

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
        # Local variables: otherwise the reader and its results would wait for the garbage collector.
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
        """Note the end of a step; True if it is the last wanted one, or later."""
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
        """Assign all pending changes to `step`."""
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
        """Note what came after the last step; a trace without steps counts as one."""
        self._note_start()
        self._has_ended = True
        if self._step == NO_STEP:
            self._commit(NO_STEP)

    def _current(self, name: str) -> Held | None:
        """The present value of a name."""
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
        """Note that training begins or continues: new state has been loaded or initialised by now."""
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
        if before is not None and before != name:  # The module turned out to be part of a larger one.
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
