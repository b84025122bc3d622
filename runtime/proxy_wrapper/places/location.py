"""Finds where in user code something happens: the stack of (file, line) up to the enclosing module call.

Frames of torch, the standard library, installed packages and this runtime are skipped. Each code object is
classified once, and each of its instructions has one location, so usually each frame of user code takes one
dictionary lookup.
"""

from __future__ import annotations

import sys
import sysconfig
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from proxy_wrapper.events import Location
from proxy_wrapper.places.source_map import read_source_map
from proxy_wrapper.program_code.called_functions import Body
from proxy_wrapper.program_code.computed_lines import computed_at, computed_from
from proxy_wrapper.program_code.frame_variables import values_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from proxy_wrapper.known.thread_state import ActiveCall
    from proxy_wrapper.places.source_map import SourceMap
    from proxy_wrapper.program_code.assigned_lines import AssignedLine

_PACKAGE_FOLDERS: Final = ("site-packages", "dist-packages")
_OUR_PACKAGES: Final = ("proxy_wrapper", "proxy_callbacks", "proxy_trace", "proxy_views")
_MAX_FRAMES: Final = 200
_MAX_USER_FRAMES: Final = 12

STAND_IN: Final = "<proxy_wrapper>"
"""The name of our code that has the file and line of the user's (see `intercept/attaching/call_sites.py`)."""

UNCOUNTED: Final = "<proxy_wrapper, uncounted as importlib._bootstrap>"
"""The file name of our code that is not counted among callers (see `intercept/attaching/call_sites.py`)."""

# Classes of code objects.
_SKIPPED: Final = 0
_USER: Final = 1
_BOUNDARY: Final = 2


class Locator:
    """Assigns ids to places in user code, and passes each new one to `define` before its first use."""

    def __init__(self, define: Callable[[Location], None], boundary: CodeType | None = None) -> None:
        """Start without any location.

        Args:
            define: called once with each location.
            boundary: the code object of a module call; frames beyond the nearest one are ignored.
        """
        self._define = define
        self._boundary = boundary
        # Keyed by id, because the hash of a code object reads all its instructions; `_codes` keeps the ids unique.
        self._codes: list[CodeType] = []
        self._kinds: dict[int, int] = {}
        self._ids: dict[tuple[int, int, int], int] = {}
        self._by_line: dict[tuple[int, int, int], int] = {}
        self._maps: dict[str, SourceMap | None] = {}
        self._numbers = count(1)
        self._skipped = _installed_prefixes()
        self._here = _working_folder()
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        self._main = str(main) if main else None

    def locate(
        self,
        depth: int = 1,
        known_frame: int = 0,
        known_location: int = 0,
        led_from: set[tuple[int, int]] | None = None,
    ) -> int:
        """The id of the place in user code from which the caller's caller was reached; 0 if there is none.

        Args:
            depth: the number of frames above this function's caller at which to begin.
            known_frame: the `id` of a running frame outside user code, at which the walk may stop.
            known_location: the place from which that frame was reached.
            led_from: the starts of walks that reached the known frame without meeting user code: the `id` of a frame
                and of its code. A walk that begins there is skipped.
        """
        try:
            frame = sys._getframe(depth + 1)
        except ValueError:
            return 0
        start = (id(frame), id(frame.f_code))
        if led_from and start in led_from:
            return known_location
        kinds = self._kinds
        found: list[FrameType] = []
        location = 0
        for _ in range(_MAX_FRAMES):
            kind = kinds.get(id(frame.f_code))
            if kind is None:
                kind = self._classify(frame.f_code)
            if kind:
                if kind == _USER:
                    found.append(frame)
                    if len(found) == _MAX_USER_FRAMES:
                        break
                elif found:
                    break
            elif known_frame and id(frame) == known_frame:
                location = known_location
                if led_from is not None and not found:
                    led_from.add(start)
                break
            caller = frame.f_back
            if caller is None:
                break
            frame = caller
        return self._number(found, location)

    def locate_inside(self, call: ActiveCall, depth: int = 1, usually_passed: int = 0) -> int:
        """The id of the place in user code from which the caller's caller was reached, inside the call `call`.

        Equals the result of `locate`, but is faster: the walk stops where `call` begins, or where it stopped before.

        Args:
            call: the thread's innermost call of a proxied module.
            depth: the number of frames above this function's caller at which to begin.
            usually_passed: how many frames from there on usually belong to torch.
        """
        try:
            frame = sys._getframe(depth + usually_passed + 1)
            if id(frame) != call.outer_frame:
                frame = sys._getframe(depth + 1)
                if self._kinds.get(id(frame.f_code)) == _SKIPPED:  # As is `F.linear`.
                    frame = sys._getframe(depth + 2)
        except ValueError:
            return self.locate(depth + 1)
        if id(frame) == call.outer_frame:
            code = id(frame.f_code)
            known = self._ids.get((code, frame.f_lasti, 0))
            if known is not None:
                return known
            if call.location >= 0 and self._kinds.get(code) == _SKIPPED:  # As in `nn.Sequential`.
                return call.location
        return self._walk_inside(frame, call)

    def locate_line(self, frame: FrameType, line: int) -> int:
        """The id of a line of the code that runs in `frame`, which may be any code.

        Args:
            frame: a running frame.
            line: a line in the code's file; the frame may be at another line of the same statement.
        """
        found: list[FrameType] = []
        above = frame.f_back
        for _ in range(_MAX_FRAMES):
            if above is None or len(found) == _MAX_USER_FRAMES - 1:
                break
            kind = self._kind(above.f_code)
            if kind == _USER:
                found.append(above)
            elif kind == _BOUNDARY:
                break
            above = above.f_back
        caller = self._number(found, 0) if found else 0
        code = frame.f_code
        known = self._by_line.get((id(code), line, caller))
        if known is not None:
            return known
        self._kind(code)  # Keeps the code.
        return self._of_line(code, line, caller)

    def _walk_inside(self, frame: FrameType, call: ActiveCall) -> int:
        found: list[FrameType] = []
        location = 0
        before: FrameType | None = None
        last: FrameType | None = None
        for _ in range(_MAX_FRAMES):
            key = id(frame)
            ends_here = found or call.location >= 0
            if key == call.call_frame and ends_here:
                if before is not None and last is not None and self._kind(last.f_code) == _SKIPPED:
                    call.outer_frame = id(before)
                location = 0 if found else call.location
                break
            kind = self._kind(frame.f_code)
            if kind == _USER:
                found.append(frame)
                ends_here = True
            if (kind == _BOUNDARY and found) or len(found) == _MAX_USER_FRAMES:
                break
            if key == call.outer_frame and ends_here:
                location = 0 if found else call.location
                break
            caller = frame.f_back
            if caller is None:
                break
            before, last, frame = last, frame, caller
        return self._number(found, location)

    def _number(self, found: list[FrameType], location: int) -> int:
        """The id of the place of the frames `found`, innermost first; the outermost was called at `location`."""
        ids = self._ids
        for frame in reversed(found):
            key = (id(frame.f_code), frame.f_lasti, location)
            known = ids.get(key)
            location = self._new(key, frame) if known is None else known
        return location

    def user_frame(self, depth: int = 1, *, is_ending: bool = False) -> FrameType | None:
        """The innermost frame of user code, up to the enclosing module call; None if there is none.

        Args:
            depth: the number of frames above this function's caller at which to begin.
            is_ending: whether the innermost module call is ending, so that the next outer one is the enclosing call.
        """
        frame: FrameType | None = sys._getframe(depth + 1)
        while is_ending and frame is not None:
            is_ending = self._kind(frame.f_code) != _BOUNDARY
            frame = frame.f_back
        while frame is not None and (kind := self._kind(frame.f_code)) != _USER:
            frame = None if kind == _BOUNDARY else frame.f_back
        return frame

    def line(self, assigned: AssignedLine | None) -> int:
        """The id of a line of user code, independent of the caller; 0 if it is not user code."""
        if assigned is None or self._kind(assigned.code) != _USER:
            return 0
        return self._of_line(assigned.code, assigned.line, 0)

    def computed(self, frame: FrameType, assigned: AssignedLine | None = None, model: Body | None = None) -> int:
        """The id of the line that computed the variable used at the current line of `frame`; 0 if unknown.

        Args:
            frame: a running function.
            assigned: the assignment of another variable, to ask for that one instead.
            model: the `forward` that computed it, if known.
        """
        if assigned is not None:
            body = Body(assigned.code, frame.f_globals, values_of(frame) if assigned.code is frame.f_code else {})
            return self.line(computed_from(assigned, body, self.is_user_code, model).at)
        return self.line(computed_at(frame, self.is_user_code, model).at)

    def is_user_code(self, code: CodeType) -> bool:
        """Whether `code` is the user's."""
        return self._kind(code) == _USER

    def _new(self, key: tuple[int, int, int], frame: FrameType) -> int:
        code = frame.f_code
        number = self._ids[key] = self._of_line(code, frame.f_lineno or code.co_firstlineno, key[2])
        return number

    def _of_line(self, code: CodeType, line: int, caller: int) -> int:
        """The id of a line in `code`, called at `caller`; defines it if it is new."""
        place = (id(code), line, caller)
        known = self._by_line.get(place)
        if known is not None:
            return known
        file = code.co_filename
        if file not in self._maps:
            self._maps[file] = read_source_map(file)
        source_map = self._maps[file]
        if source_map is not None:
            file, line = source_map.source, source_map.original_line(line)
        elif self._here and file.startswith(self._here):
            file = file[len(self._here) :]
        number = next(self._numbers)
        function = getattr(code, "co_qualname", code.co_name)
        self._define(Location(number, file, line, function, caller))
        # Two threads may reach a new place at once: both use the number of the first.
        return self._by_line.setdefault(place, number)

    def _kind(self, code: CodeType) -> int:
        kind = self._kinds.get(id(code))
        return self._classify(code) if kind is None else kind

    def _classify(self, code: CodeType) -> int:
        kind = _BOUNDARY if code is self._boundary else _USER if self._is_user_code(code) else _SKIPPED
        self._codes.append(code)
        self._kinds[id(code)] = kind
        return kind

    def _is_user_code(self, code: CodeType) -> bool:
        file = code.co_filename
        return code.co_name != STAND_IN and file != UNCOUNTED and self.is_user_file(file)

    def is_user_file(self, file: str) -> bool:
        """Whether code in this file is the user's."""
        if file == self._main:
            return True
        if file.startswith(("<frozen", "<__array_function__")):
            return False
        return not file.startswith(self._skipped) and not any(folder in file for folder in _PACKAGE_FOLDERS)

    def user_files(self) -> list[str]:
        """The files of the user's code that are imported; [] if they do not include the script."""
        files = [vars(module).get("__file__") for module in list(sys.modules.values()) if type(module) is ModuleType]
        found = dict.fromkeys(file for file in files if type(file) is str and self.is_user_file(file))
        return [*found] if getattr(sys.modules.get("__main__"), "__file__", None) in found else []


def _working_folder() -> str:
    """The program's working directory, with a separator at its end; "" if it has been deleted."""
    try:
        return str(Path.cwd() / "_")[:-1]
    except OSError:
        return ""


def _installed_prefixes() -> tuple[str, ...]:
    """Folders whose code is not the user's, including our packages, which may be an editable install."""
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths.update(str(Path(__file__).parents[2] / name) for name in _OUR_PACKAGES)
    torch = sys.modules.get("torch")
    if torch is not None and torch.__file__:
        paths.add(str(Path(torch.__file__).parent))
    return tuple(path.rstrip("/\\") + ("\\" if "\\" in path else "/") for path in sorted(paths) if path)
