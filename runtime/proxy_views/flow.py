"""The outcomes of the conditions and loops in one call of a model, as `LiveTrace.flow_steps` returns them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from proxy_trace.flow.flow_steps import FlowStep, name_of_step
from proxy_wrapper.places.source_map import read_source_map

if TYPE_CHECKING:
    from types import CodeType

    from proxy_views.recording import Recording
    from proxy_wrapper.places.source_map import SourceMap


class RecordedFlow:
    """Collects flow steps while a call is recorded."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._told: list[tuple[tuple[str, str, int], bool | None, int | None, CodeType]] = []

    def is_open(self) -> bool:
        """Whether the call is being recorded now."""
        return self._recording.is_open

    def told(self, site: tuple[str, str, int], value: bool | None, iterations: int | None, code: CodeType) -> None:
        """Note that a condition was evaluated or a loop ended."""
        self._told.append((site, value, iterations, code))

    def steps(self) -> list[FlowStep]:
        """The steps in order. For an instrumented script, lines are those of the original."""
        counts: Counter[str] = Counter()
        maps: dict[str, SourceMap | None] = {}
        steps = []
        for (construct, text, line), value, iterations, code in self._told:
            file = code.co_filename
            if file not in maps:
                maps[file] = read_source_map(file)
            original = maps[file]
            place = (original.source, original.original_line(line)) if original is not None else (file, line)
            name = name_of_step(construct, text, counts)
            function = getattr(code, "co_qualname", code.co_name)
            steps.append(FlowStep(construct, name, value, iterations, place[0], function, place[1]))
        return steps
