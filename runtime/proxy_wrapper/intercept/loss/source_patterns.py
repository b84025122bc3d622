"""Reports mistakes that the source of the training program shows, whatever its values are.

Nothing is replaced. Each file is read once: those of the functions on the stack of a backward pass or of an optimizer
step, and those that define the functions and classes of the program which these mention.
"""

from __future__ import annotations

from types import CodeType
from typing import TYPE_CHECKING, Final

from proxy_wrapper.events import SourcePattern
from proxy_wrapper.levels import INFO
from proxy_wrapper.program_code.assigned_lines import AssignedLine
from proxy_wrapper.program_code.called_functions import bodies_around
from proxy_wrapper.source_patterns.find_patterns import find_patterns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy_wrapper.source_patterns.pattern import Pattern
    from proxy_wrapper.tracer import Tracer

_MOST_PLACES: Final = 100
_MOST_FILES: Final = 100


class SourcePatterns:
    """Creates `SourcePattern` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._places: set[int] = set()
        self._files: set[str] = set()

    def look(self, location: int) -> None:
        """Read the files that lead to a backward pass or a step, the first time that one begins at a location."""
        if location in self._places or len(self._places) >= _MOST_PLACES:
            return
        self._places.add(location)
        tracer = self._tracer
        by_file: dict[str, list[CodeType]] = {}
        for body in bodies_around(tracer.locator.user_frame(2), tracer.locator.is_user_code):
            if tracer.locator.is_user_code(body.code):
                by_file.setdefault(body.code.co_filename, []).append(body.code)
        for file, codes in by_file.items():
            if file in self._files or len(self._files) >= _MOST_FILES:
                continue
            self._files.add(file)
            tree = tracer.functions.file_of(codes[0])
            try:
                found = [] if tree is None else find_patterns(tree)
            except RecursionError:  # An expression of a thousand terms, in generated code.
                continue
            for pattern in found:
                self._emit(pattern, codes)

    def _emit(self, pattern: Pattern, codes: Iterable[CodeType]) -> None:
        tracer = self._tracer
        thread = tracer.thread
        made, other = (self._line_of(line, codes) for line in (pattern.line, pattern.other))
        event = SourcePattern(
            tracer.now_us(),
            tracer.step,
            0,
            0,
            thread.number,
            thread.stage,
            pattern.what,
            pattern.names,
            made,
            other,
        )
        tracer.broadcast(event, 0, level=INFO, also=tuple(place for place in (made, other) if place))

    def _line_of(self, line: int, codes: Iterable[CodeType]) -> int:
        """The location of a line, in the innermost function that has it; 0 if none has."""
        found: CodeType | None = None
        pending = [*codes]
        for code in pending:
            pending += [each for each in code.co_consts if isinstance(each, CodeType)]
            has_line = any(at == line for _, _, at in code.co_lines())
            if has_line and (found is None or code.co_firstlineno >= found.co_firstlineno):
                found = code
        return 0 if found is None else self._tracer.locator.line(AssignedLine(found, line))
