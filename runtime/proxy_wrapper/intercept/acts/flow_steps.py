"""Records the control flow of the program: the outcome of each test, and the iterations of each loop.

The functions that proxied modules call run code with the same tests in the same places, which reports each outcome
(see `flow/`). Nothing is installed unless a module is proxied with `flow=True`.
"""

from __future__ import annotations

import dis
import os
import sysconfig
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from proxy_wrapper.events import FlowStep
from proxy_wrapper.flow import calls
from proxy_wrapper.flow.loops import Loops
from proxy_wrapper.flow.reachable import Reachable
from proxy_wrapper.flow.replaced_functions import ReplacedFunctions
from proxy_wrapper.flow.source_file import SourceFile
from proxy_wrapper.levels import INFO

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType, FunctionType

    from torch import nn

    from proxy_wrapper.known.entries import ModuleEntry
    from proxy_wrapper.known.thread_state import ThreadState
    from proxy_wrapper.live import LiveFlow
    from proxy_wrapper.tracer import Tracer
    from proxy_wrapper.writing.channel import Channel

_tracing_state: Final = torch._C._get_tracing_state
_JUMPS: Final = frozenset((*dis.hasjrel, *dis.hasjabs))
_INSTALLED: Final = ("site-packages", "dist-packages")


class _Place(NamedTuple):
    """Where in a trace a step belongs, determined when the test was evaluated or the loop began."""

    channels: tuple[Channel, ...]
    module: int
    location: int
    ordinal: int
    thread: int
    stage: str


class _Begun(NamedTuple):
    """A loop that has begun, and who is told when it ends."""

    site: tuple[str, str, int]
    code: CodeType
    place: _Place | None
    live: LiveFlow | None


class FlowSteps:
    """Creates `FlowStep` events."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._threads = tracer.threads
        self._locate = tracer.locator.locate_line
        self._never = _never_observed()
        self._files: dict[str, SourceFile] = {}
        self._followed: dict[int, ModuleEntry] = {}
        self._live: list[tuple[nn.Module, LiveFlow, LiveFlow | None]] = []
        self._replaced = ReplacedFunctions()
        self._loops = Loops()
        self._reachable = self._new_reachable()
        self._is_installed = False

    def install(self) -> None:
        """Observe the functions called by modules with `flow=True`. Does nothing for modules already observed."""
        wanted = {id(entry): entry for entry in self._tracer.registry if entry.watch.flow}
        gone = [key for key in self._followed if key not in wanted]
        if any(self._followed[key].module() is not None for key in gone):
            self.remove()  # Start over: other modules may share the functions that these called.
        else:
            for key in gone:
                del self._followed[key]
        if not wanted and not self._live:
            self.remove()
            return
        if not self._is_installed:
            self._is_installed = True
            self._tracer.before_event = self.record_ended_loops
            calls.put_in(self.record_test, self.follow_loop)
            for model, _, _ in self._live:
                self._follow(model.modules())
        for key, entry in wanted.items():
            module = entry.module()
            if key not in self._followed and module is not None:
                self._followed[key] = entry
                self._follow([module])

    def remove(self) -> None:
        """Let all functions run their original code again."""
        if not self._is_installed:
            return
        self._is_installed = False
        self._replaced.put_back()
        calls.take_out()
        self.record_ended_loops()
        self._loops.forget()
        self._tracer.before_event = None
        self._followed.clear()
        self._reachable = self._new_reachable()

    def add_live(self, module: nn.Module, observer: LiveFlow) -> None:
        """Tell `observer` of tests and loops in the functions that `module` calls on this thread, proxied or not."""
        thread = self._threads.state
        self._live.append((module, observer, thread.live_flow))
        thread.live_flow = observer
        if self._is_installed:
            self._follow(module.modules())
        elif self._tracer.active and not self._tracer.is_closed:
            self.install()

    def remove_live(self, observer: LiveFlow) -> None:
        """Stop telling `observer`."""
        self.record_ended_loops()
        thread = self._threads.state
        for position, (_, other, before) in enumerate(self._live):
            if other is observer:
                del self._live[position]
                if thread.live_flow is observer:
                    thread.live_flow = before
                break
        if self._is_installed:
            self.remove()  # Start over, as above.
            self.install()

    def _follow(self, modules: Iterable[nn.Module]) -> None:
        for module in modules:
            for function in self._reachable.functions_of(module):
                self._observe(function)

    def _new_reachable(self) -> Reachable:
        return Reachable(self._tracer.locator.is_user_file, lambda file: _is_below(file, self._never))

    def _observe(self, function: FunctionType) -> None:
        """Replace the code of `function` by observed code, if it has tests and its source is what is running."""
        code = function.__code__
        if function in self._replaced or not _has_tests(code):
            return
        file = code.co_filename
        if file not in self._files:
            self._files[file] = SourceFile(file)
        observed = self._files[file].observed(code)
        if observed is not None:
            self._replaced.replace(function, observed)
        elif not (file == "<string>" and code.co_name.startswith("__")):  # As `dataclasses` makes them.
            self._tracer.note_problem(
                f"Flow steps of some functions in {file} are not recorded: their code differs from its source, "
                "because the file has changed or they were made in another way."
            )

    # Called by observed code.

    def record_test(self, site: tuple[str, str, int], value: bool, frame: FrameType) -> None:
        """Record that the test at `site`, in the code that runs in `frame`, came out as `value`."""
        try:
            thread = self._threads.state
            if thread.inside is not None or _tracing_state() is not None:
                return
            if thread.live_flow is not None:
                self.record_ended_loops()
                if thread.live_flow.is_open():
                    thread.live_flow.told(site, value, None, frame.f_code)
            place = self._place(thread, site, frame)
            if place is not None:
                self._emit(place, site, value, None)
        except RecursionError:  # The program's own: it is about to raise it itself.
            return
        except Exception as error:  # noqa: BLE001  A mistake of ours must not reach the program.
            self._tracer.fail(error)

    def follow_loop(self, site: tuple[str, str, int], iterator: Iterator[Any], frame: FrameType) -> Iterator[Any]:
        """An iterator in place of `iterator` that records when the loop at `site` ends."""
        try:
            thread = self._threads.state
            if thread.inside is not None or _tracing_state() is not None:
                return iterator
            live = thread.live_flow
            if live is not None and not live.is_open():
                live = None
            place = self._place(thread, site, frame)
            if place is None and live is None:
                return iterator
            return self._loops.follow(iterator, _Begun(site, frame.f_code, place, live))
        except RecursionError:
            return iterator
        except Exception as error:  # noqa: BLE001
            self._tracer.fail(error)
            return iterator

    def record_ended_loops(self) -> None:
        """Record the loops that have ended, before any later event."""
        for loop in self._loops.take_ended():
            begun: _Begun = loop.made
            if begun.place is not None:
                self._emit(begun.place, begun.site, None, loop.iterations)
            if begun.live is not None:
                begun.live.told(begun.site, None, loop.iterations, begun.code)

    def _place(self, thread: ThreadState, site: tuple[str, str, int], frame: FrameType) -> _Place | None:
        """Where a step belongs in the trace; None if it is not recorded."""
        stack = thread.stack
        if stack:
            entry = stack[-1].entry
            if entry.level > INFO or not entry.watch.flow:
                return None
            module = entry.id
            channels: tuple[Channel, ...] = (entry.channel,)
        else:
            module, channels = 0, self._tracer.flow_channels
            if not channels:
                return None
        location = self._locate(frame, site[2])
        ordinal = thread.ordinal(location, site[1], self._tracer.step)
        return _Place(channels, module, location, ordinal, thread.number, thread.stage)

    def _emit(self, place: _Place, site: tuple[str, str, int], value: bool | None, iterations: int | None) -> None:
        channels, module, location, ordinal, thread, stage = place
        tracer = self._tracer
        event = FlowStep(
            tracer.now_us(), tracer.step, module, location, thread, stage, site[0], site[1], value, iterations, ordinal
        )
        for channel in channels:
            channel.emit(event, location)


def _has_tests(code: CodeType) -> bool:
    """Whether `code`, or a function within it, contains a jump."""
    if any(operation in _JUMPS for operation in code.co_code[::2]):
        return True
    return any(_has_tests(each) for each in code.co_consts if isinstance(each, CodeType))


def _never_observed() -> tuple[str, ...]:
    """The folders of torch, of this runtime, and of Python's standard library."""
    runtime = Path(__file__).resolve().parents[3]
    folders = [str(Path(torch.__file__).parent), *(str(runtime / each) for each in ("proxy_wrapper", "proxy_views"))]
    folders += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    return tuple(os.path.join(folder, "") for folder in folders)  # noqa: PTH118  The form used in code objects.


def _is_below(file: str, folders: tuple[str, ...]) -> bool:
    """Whether `file` is in one of these folders, but not in installed packages within it."""
    for folder in folders:
        if file.startswith(folder):
            return not file[len(folder) :].replace("\\", "/").startswith(_INSTALLED)
    return file.startswith("<frozen")
