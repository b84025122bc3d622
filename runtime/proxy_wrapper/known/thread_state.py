"""What a thread is doing: the proxied modules whose calls are running on it, and its stage."""

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
"""Stands for a location that was not looked up."""


class ActiveCall(msgspec.Struct, gc=False, eq=False):
    """A call of a proxied module that has not returned.

    A struct, because one is created for each call. `call_frame` is the `id` of the frame of torch's `_call_impl` that
    runs it; 0 if unknown. `outer_frame` is the `id` of the nearest frame from which a location was determined, with
    only torch's frames in between: the frame of `forward`. Both frames run until the call ends, so their ids stay
    unique. `input_versions` sums torch's counts of in-place changes to the tensors among the positional arguments.
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
    """A thread as autograd's engine finds it: the number of enclosing torch calls, and whether we pushed the mode."""

    torch_calls: int
    is_put_on: bool


class BackwardPass(NamedTuple):
    """A backward pass that has not ended, and the arguments passed to autograd's engine.

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


class Singularity(NamedTuple):
    """An operation without a finite derivative: the step in which it was found, its name, and its location or 0."""

    step: int
    operation: str
    computed: int


class CompiledCall(NamedTuple):
    """A call of compiled code that has not returned."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    location: int


class Inside(NamedTuple):
    """A thread's stay in compiled code: what entered it, and how to undo the preparations.

    Attributes:
        switcher: the `id` of what switched Dynamo on.
        call: the recorded call; None if it is not recorded.
        had_mode: whether the mode that observes torch calls was on the thread's stack.
        hidden: what is removed for all threads while Dynamo is on.
        is_hiding: whether it is removed now.
        is_export: whether this is a capture by `torch.export`, during which it stays removed.
    """

    switcher: int
    call: CompiledCall | None
    had_mode: bool
    hidden: tuple[Any, ...]
    is_hiding: bool
    is_export: bool


class SteppingWithClosure(NamedTuple):
    """A step of an optimizer that was passed a closure, and has not ended.

    `frame` is the `id` of its frame; `states` are the parameters that it changes.
    """

    frame: int
    states: frozenset[StateEntry]


class Known(NamedTuple):
    """Statistics of a tensor, valid while only torch's own code runs, with its number and version at that time."""

    number: int
    version: int
    statistics: Any


class ThreadState:
    """What is known about one thread."""

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
        "singularity",
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
        self.live: LiveObserver | None = None  # Observes the values it computes.
        self.change: ChangingObserver | None = None  # The observer that changes them.
        self.live_flow: LiveFlow | None = None  # Observes its conditions and loops.
        self.number = 0 if threading.get_ident() == threading.main_thread().ident else threading.get_native_id()
        # Its stay in compiled code. Until that ends, nothing it does is observed.
        self.inside: Inside | None = None
        self.has_called = False  # Whether it has ever called a proxied module.
        self.stepping: SteppingWithClosure | None = None
        self.put_in: list[StateEntry] = []  # Their tensors may have been replaced for one call only.
        # The steps that have ended on it; its calls of `StateChanges.look` and `glance`; the step at its last `glance`.
        self.steps = self.looks = self.glances = self.glanced_step = 0
        self.has_compared_all = False  # Whether the last `look` compared all values.
        self.training = Training()
        self.optimizer_location = 0
        self.optimizer_frame = 0  # The `id` of the frame of the optimizer's step.
        self.optimizer_walks: set[tuple[int, int]] = set()  # See `Locator.locate`.
        self.optimizer_began_us = 0
        # The optimizer that is stepping and may still create state; the amount of state at the last check.
        self.optimizer: weakref.ref[torch.optim.Optimizer] | None = None
        self.optimizer_size = (0, 0)
        self.draws: DrawnNumbers | None = None  # Set while random draws are being looked for.
        self.torch_calls = 0
        # What will make the gradients of the last backward pass non-finite, if it is known.
        self.singularity: Singularity | None = None
        self.last_model: ModuleEntry | None = None  # The root module called last.
        self.last_node_of_model = -1  # Autograd's number of the last node of a root module's last output.
        self.backward_passes: list[BackwardPass] = []  # Those running, the innermost last.
        self.suspended_calls = 0  # The torch calls around the running backward pass.
        self.aside: list[weakref.ref[nn.Module]] = []  # Blacklisted modules being called.
        # The last result of a torch call or a module, and the last tensor read by an optimizer, with their statistics.
        self.just_given: Known | None = None
        self.just_read: Known | None = None
        self.mode = TRAIN
        self.stage = TRAIN
        # Tensors already checked for non-finite values, or received from outside: number to version.
        self.checked: dict[int, int] = {}
        # For calls outside all modules.
        self._ordinals: dict[tuple[int, str], int] = {}
        self._ordinals_step = 0

    def enter_root(self) -> None:
        """Reset the counts, because a module is called outside any other proxied module."""
        self.has_called = True
        self.checked.clear()
        self._ordinals.clear()
        self.leave_optimizer()  # An interrupted step does not report its end.

    def enter_optimizer(self, frame: int, location: int) -> None:
        """Note that an optimizer's step runs in `frame` and was called at `location`."""
        self.optimizer_frame, self.optimizer_location = frame, location
        self.optimizer_walks.clear()

    def leave_optimizer(self) -> None:
        """Forget the frame of the step, because its `id` may be reused."""
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
        """The counts of calls outside all modules. They restart with each step."""
        if step != self._ordinals_step:
            self._ordinals_step = step
            self._ordinals.clear()
        return self._ordinals


class ThreadStates(threading.local):
    """Holds the state of the calling thread. Each access costs a look-up, so keep the result."""

    def __init__(self, known: dict[int, weakref.ref[ThreadState]], at_end: list[Callable[[], None]]) -> None:
        """Create the state of a thread, at its first access.

        Args:
            known: the states of all threads, to which the new one is added.
            at_end: called as the last thing that each thread does in Python.
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
