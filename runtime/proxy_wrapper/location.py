"""Where in user code something happens: the stack of (file, line) up to the enclosing module call.

Code of torch, of the standard library, of installed packages and of this runtime is walked over. What a code
object is, is looked up once; an instruction of it has one location, so the common case is one dictionary look-up
for each frame of user code.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Final

from proxy_wrapper.events import Location
from proxy_wrapper.source_map import read_source_map

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from proxy_wrapper.source_map import SourceMap

_PACKAGE_FOLDERS: Final = ("site-packages", "dist-packages")
_MAX_FRAMES: Final = 200
_MAX_USER_FRAMES: Final = 12

# What a code object is to the walk.
_PASSED_OVER: Final = 0
_USER: Final = 1
_BOUNDARY: Final = 2


class Locator:
    """Gives places in user code small numbers, and tells `define` of each new one before its first use."""

    def __init__(self, define: Callable[[Location], None], boundary: CodeType | None = None) -> None:
        """Start without any location.

        Args:
            define: called once with each location.
            boundary: the code object of a module call; frames beyond the nearest one are not looked at.
        """
        self._define = define
        self._boundary = boundary
        # By id, since the hash of a code object reads all its instructions, each time; `_codes` keeps the ids true.
        self._codes: list[CodeType] = []
        self._kinds: dict[int, int] = {}
        self._ids: dict[tuple[int, int, int], int] = {}
        self._by_line: dict[tuple[int, int, int], int] = {}
        self._maps: dict[str, SourceMap | None] = {}
        self._count = 0
        self._skipped = _installed_prefixes()
        self._cwd = str(Path.cwd() / "_")[:-1]
        main = getattr(sys.modules.get("__main__"), "__file__", None)
        self._main = str(main) if main else None

    def locate(self, depth: int = 1, known_frame: int = 0, known_location: int = 0) -> int:
        """The id of the place in user code that led to the caller's caller; 0 if there is none.

        Args:
            depth: how many frames above this function's caller to begin.
            known_frame: the `id` of a frame that is running and is not user code; there is no need to look beyond it.
            known_location: the place that led to that frame.
        """
        try:
            frame = sys._getframe(depth + 1)
        except ValueError:
            return 0
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
                break
            caller = frame.f_back
            if caller is None:
                break
            frame = caller
        ids = self._ids
        for user_frame in reversed(found):
            key = (id(user_frame.f_code), user_frame.f_lasti, location)
            known = ids.get(key)
            location = self._new(key, user_frame) if known is None else known
        return location

    def _new(self, key: tuple[int, int, int], frame: FrameType) -> int:
        code = frame.f_code
        caller = key[2]
        line = frame.f_lineno or code.co_firstlineno
        place = (id(code), line, caller)
        known = self._by_line.get(place)
        if known is not None:
            self._ids[key] = known
            return known
        file = code.co_filename
        if file not in self._maps:
            self._maps[file] = read_source_map(file)
        source_map = self._maps[file]
        if source_map is not None:
            file, line = source_map.source, source_map.original_line(line)
        elif file.startswith(self._cwd):
            file = file[len(self._cwd) :]
        self._count += 1
        number = self._count
        function = getattr(code, "co_qualname", code.co_name)
        self._define(Location(number, file, line, function, caller))
        self._ids[key] = self._by_line[place] = number
        return number

    def _classify(self, code: CodeType) -> int:
        kind = _BOUNDARY if code is self._boundary else _USER if self._is_user_code(code) else _PASSED_OVER
        self._kinds[id(code)] = kind
        self._codes.append(code)
        return kind

    def _is_user_code(self, code: CodeType) -> bool:
        file = code.co_filename
        if file == self._main:
            return True
        if file.startswith(("<frozen", "<__array_function__")):
            return False
        return not file.startswith(self._skipped) and not any(folder in file for folder in _PACKAGE_FOLDERS)


def _installed_prefixes() -> tuple[str, ...]:
    """Folders whose code is not the user's. An editable install of this runtime is one more."""
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths.add(str(Path(__file__).parent))
    torch = sys.modules.get("torch")
    if torch is not None and torch.__file__:
        paths.add(str(Path(torch.__file__).parent))
    return tuple(path.rstrip("/\\") + ("\\" if "\\" in path else "/") for path in sorted(paths) if path)
