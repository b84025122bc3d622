"""Where in the program something was called: stored as code object and instruction, formatted on request."""

from __future__ import annotations

import linecache
import os
import sys
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import torch
from torch import nn

from proxy_wrapper.places.location import STAND_IN
from proxy_wrapper.places.source_map import read_source_map

if TYPE_CHECKING:
    from types import CodeType, FrameType

Frames: TypeAlias = "tuple[tuple[CodeType, int], ...]"
"""The code objects of frames, each with the current instruction, innermost first."""

_MODULE_CALL: Final = nn.Module._call_impl.__code__  # Where the call of a module begins.
_TORCH: Final = os.path.join(os.path.dirname(torch.__file__), "")  # noqa: PTH118, PTH120  As code objects have it.
_RUNTIME: Final = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")  # noqa: PTH118, PTH120
_OURS: Final = (os.path.join(_RUNTIME, "proxy_views", ""), os.path.join(_RUNTIME, "proxy_wrapper", ""))  # noqa: PTH118
_MOST_FRAMES: Final = 64


class Place(NamedTuple):
    """A line of the program. For an instrumented script, file and line are the original's."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def frames_inside_module(depth: int, *, of_call: bool = False) -> Frames:
    """The frames up the stack to where the innermost call of a module begins, innermost first.

    Args:
        depth: how many frames above this function's caller to begin.
        of_call: whether a call of a module is just beginning. The frames are then those inside the enclosing call.
    """
    frame: FrameType | None = sys._getframe(depth + 1)
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < _MOST_FRAMES:
        code = frame.f_code
        if code is _MODULE_CALL:
            if not of_call:
                break
            of_call = False
        found.append((code, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


class Places:
    """Turns frames into places. Results are cached."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Place | None] = {}
        self._texts: dict[tuple[tuple[int, int], ...], str] = {}
        self._codes: list[CodeType] = []  # Kept alive, so that their ids are not reused.

    def of(self, frames: Frames) -> list[Place]:
        """The lines among `frames` that belong to neither torch nor this package, innermost first."""
        return [place for place in (self._place(*frame) for frame in frames) if place is not None]

    def traceback(self, frames: Frames) -> str:
        """The same lines formatted as a traceback, innermost last."""
        key = tuple([(id(code), instruction) for code, instruction in frames])  # Hashing a code object reads all of it.
        known = self._texts.get(key)
        if known is None:
            known = self._texts[key] = "".join(map(_as_traceback, reversed(self.of(frames))))
        return known

    def _place(self, code: CodeType, instruction: int) -> Place | None:
        key = (id(code), instruction)
        if key not in self._known:
            self._codes.append(code)
            self._known[key] = _locate(code, instruction)
        return self._known[key]


def _locate(code: CodeType, instruction: int) -> Place | None:
    file = code.co_filename
    if file.startswith((_TORCH, "<frozen", "<proxy_wrapper", *_OURS)) or code.co_name == STAND_IN:
        return None
    line = _line_at(code, instruction)
    source_map = read_source_map(file)
    if source_map is not None:
        file, line = source_map.source, source_map.original_line(line)
    return Place(file, line, getattr(code, "co_qualname", code.co_name))


def _line_at(code: CodeType, instruction: int) -> int:
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return line
    return code.co_firstlineno


def _as_traceback(place: Place) -> str:
    text = linecache.getline(place.file, place.line).strip()
    line = f'  File "{place.file}", line {place.line}, in {place.function.rpartition(".")[2]}\n'
    return f"{line}    {text}\n" if text else line
