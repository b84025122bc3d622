"""What a thread is doing: the proxied modules that it is calling, and the stage that it is in."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from proxy_wrapper.events import TRAIN
from proxy_wrapper.known.training import Training

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import nn

    from proxy_wrapper.known.drawn_numbers import DrawnNumbers
    from proxy_wrapper.known.entries import ModuleEntry, StateEntry
    from proxy_wrapper.live import ChangingObserver, LiveFlow, LiveObserver


UNKNOWN: Final = -1
"""In place of a location that was not looked for."""


class ActiveCall(msgspec.Struct, gc=False, eq=False):
    """A call of a proxied module that has not returned.

    A struct because one is made for each call. `call_frame` is the `id` of the frame of torch's `_call_impl` that runs
    it, 0 if unknown. `outer_frame` is that of the frame nearest to it from which something was located, with nothing
    but torch's own between: that of `forward`. Both run until the call ends, so their ids stay theirs.
    `input_versions` sums up torch's counts of in-place changes to the tensors among the positional arguments.
    """

    entry: ModuleEntry
    started_us: int
    exception_id: int
    location: int
    call_frame: int
    outer_frame: int
    input_versions: int
    ordinals: dict[tuple[int, str], int]


class ThreadFound(NamedTuple):
    """How autograd's engine finds a thread: inside how many torch calls, and whether the mode was put on for it."""

    torch_calls: int
    is_put_on: bool


class BackwardPass(NamedTuple):
    """A backward pass that has not ended, and what autograd's engine was given for it.

    `inputs` is what derivatives are with respect to, if these are to be followed; else None.
    """

    roots: Any
    gradients: Any
    function: str
    began_us: int
    location: int
    found: ThreadFound | None
    gradient_marks: dict[int, tuple[int, int, int] | None] | None
    inputs: Any = None


class CompiledCall(NamedTuple):
    """A call of compiled code that has not returned."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    location: int


class Inside(NamedTuple):
    """A stay in compiled code: what entered there, and how to leave it.

    Attributes:
        switcher: the `id` of what switched Dynamo on.
        call: the call that it is, where that is recorded.
        had_mode: whether the mode that sees torch calls was on the thread's stack.
        hidden: what is kept from all threads whenever Dynamo is on meanwhile.
        is_hiding: whether it is kept from them now.
        is_export: whether it is a capture by `torch.export`, which has it kept from them all the time.
    """

    switcher: int
    call: CompiledCall | None
    had_mode: bool
    hidden: tuple[Any, ...]
    is_hiding: bool
    is_export: bool


class SteppingWithClosure(NamedTuple):
    """A step of an optimizer that was given a closure, and has not ended.

    `frame` is the `id` of the frame that it runs in, `states` are the parameters that it changes.
    """

    frame: int
    states: frozenset[StateEntry]


class Known(NamedTuple):
    """Statistics of a tensor that nothing but code of torch's own has run since: its number, and its version then."""

    number: int
    version: int
    statistics: Any


class ThreadState:
    """What is known of one thread."""

    __slots__ = (
        "__weakref__",
        "_ordinals",
        "_ordinals_step",
        "aside",
        "backward_passes",
        "change",
        "checked",
        "draws",
        "glanced_step",
        "glances",
        "has_called",
        "has_compared_all",
        "inside",
        "just_given",
        "just_read",
        "last_model",
        "last_node_of_model",
        "live",
        "live_flow",
        "looks",
        "mode",
        "number",
        "optimizer",
        "optimizer_began_us",
        "optimizer_frame",
        "optimizer_location",
        "optimizer_size",
        "optimizer_walks",
        "put_in",
        "stack",
        "stage",
        "stepping",
        "steps",
        "suspended_calls",
        "torch_calls",
        "training",
    )

    def __init__(self) -> None:
        self.stack: list[ActiveCall] = []
        self.live: LiveObserver | None = None  # What sees the values that it computes with.
        self.change: ChangingObserver | None = None  # Which of these changes them.
        self.live_flow: LiveFlow | None = None  # What is told of its tests and loops, besides the trace.
        self.number = 0 if threading.get_ident() == threading.main_thread().ident else threading.get_native_id()
        # Its stay in compiled code: until that ends, nothing that it does is seen.
        self.inside: Inside | None = None
        self.has_called = False  # Whether it has ever called a proxied module.
        self.stepping: SteppingWithClosure | None = None
        self.put_in: list[StateEntry] = []  # Whose tensors may have been put there for one call.
        # The steps that have ended in it; how often it has looked and glanced at values, and at which step it did last.
        self.steps = self.looks = self.glances = self.glanced_step = 0
        self.has_compared_all = False  # Whether its last look compared the values of all tensors.
        self.training = Training()
        self.optimizer_location = 0
        self.optimizer_frame = 0  # The `id` of the frame that the optimizer's step runs in.
        self.optimizer_walks: set[tuple[int, int]] = set()  # See `Locator.locate`.
        self.optimizer_began_us = 0
        # The optimizer that steps, where it may yet make state; how much it had when that was looked at last.
        self.optimizer: weakref.ref[torch.optim.Optimizer] | None = None
        self.optimizer_size = (0, 0)
        self.draws: DrawnNumbers | None = None  # Which modules draw random numbers, while that is asked.
        self.torch_calls = 0
        self.last_model: ModuleEntry | None = None  # The root module that was called last.
        self.last_node_of_model = -1  # The number that autograd gave the last node of what a root module put out last.
        self.backward_passes: list[BackwardPass] = []  # That it is in, the innermost last.
        self.suspended_calls = 0  # Torch calls around the backward pass that it is in.
        self.aside: list[weakref.ref[nn.Module]] = []  # Modules on the blacklist that it is calling.
        # What a call of torch or of a module has just given, and an optimizer has just read, with statistics.
        self.just_given: Known | None = None
        self.just_read: Known | None = None
        self.mode = TRAIN
        self.stage = TRAIN
        # The tensors that were looked at for non-finite values, or came from outside, by number, each with its version.
        self.checked: dict[int, int] = {}
        # Of calls outside of all modules.
        self._ordinals: dict[tuple[int, str], int] = {}
        self._ordinals_step = 0

    def enter_root(self) -> None:
        """Begin to count anew: a module is called that no other proxied one is calling."""
        self.has_called = True
        self.checked.clear()
        self._ordinals.clear()
        self.leave_optimizer()  # A step that was interrupted has not said that it ended.

    def enter_optimizer(self, frame: int, location: int) -> None:
        """Note that an optimizer's step runs in `frame` and was called at `location`."""
        self.optimizer_frame, self.optimizer_location = frame, location
        self.optimizer_walks.clear()

    def leave_optimizer(self) -> None:
        """Forget the frame of the step: its `id` may become another's."""
        self.optimizer_frame = 0
        self.optimizer = self.just_read = None
        self.optimizer_walks.clear()

    def ordinal(self, location: int, target: str, step: int) -> int:
        """How often `target` was called at `location` before, in the same call of the enclosing module."""
        counts = self.stack[-1].ordinals if self.stack else self.outer_ordinals(step)
        key = (location, target)
        ordinal = counts.get(key, 0)
        counts[key] = ordinal + 1
        return ordinal

    def outer_ordinals(self, step: int) -> dict[tuple[int, str], int]:
        """The counts of calls outside of all modules; they begin anew with each step."""
        if step != self._ordinals_step:
            self._ordinals_step = step
            self._ordinals.clear()
        return self._ordinals


class ThreadStates(threading.local):
    """Has the state of the thread that asks. Each question costs a look-up, so ask once and keep the answer."""

    def __init__(self, known: dict[int, weakref.ref[ThreadState]], at_end: list[Callable[[], None]]) -> None:
        """Make the state of a thread, which asks for the first time.

        Args:
            known: those of all threads, which it is entered among.
            at_end: what each thread calls as the last thing of all that it does in Python.
        """
        self.state = ThreadState()
        self.known = known
        self.at_end = at_end
        key = id(self.state)

        def end(_: object) -> None:
            known.pop(key, None)
            for each in at_end:
                each()

        known[key] = weakref.ref(self.state, end)

    def others(self) -> list[ThreadState]:
        """The states of the other threads that have not ended."""
        if len(self.known) == 1:
            return []
        states = [ref() for ref in self.known.copy().values()]
        return [state for state in states if state is not None and state is not self.state]
