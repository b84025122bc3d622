"""The steps of a recording: calls of modules and functions. Also reads of sizes, and changes of values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import nn

    from proxy_views.call_state import CallState
    from proxy_views.places import Frames


class ModuleCall:
    """A call of a module.

    Attributes:
        module: the module called.
        parent: the enclosing call of a module; None for the call of the model.
        args: the positional arguments, as they were at the call.
        kwargs: the keyword arguments, likewise.
        output: its result.
        frames: from the call outwards, to where its parent begins.
        is_opaque: whether the calls inside it are not seen.
        end: the number of the first step after it.
        region: the enclosing checkpoints, the outermost first.
        serial: its number among all calls, in order of their beginnings.
    """

    __slots__ = (
        "args",
        "end",
        "frames",
        "hook",
        "is_opaque",
        "kwargs",
        "module",
        "output",
        "parent",
        "region",
        "serial",
        "state",
    )

    def __init__(
        self,
        module: nn.Module,
        parent: ModuleCall | None,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        frames: Frames,
        region: tuple[Region, ...],
        state: CallState,
        *,
        is_opaque: bool,
    ) -> None:
        self.module, self.parent, self.args, self.kwargs = module, parent, args, kwargs
        self.frames, self.region, self.state, self.is_opaque = frames, region, state, is_opaque
        self.output: Any = None
        self.end = self.serial = 0
        self.hook = 0  # The key of our hook that waits for the call to end.


class Region(NamedTuple):
    """An activation checkpoint.

    Attributes:
        number: its index in the enclosing region.
        is_reentrant: whether it uses reentrant autograd.
        state: the state of torch's switches where it was called.
    """

    number: int
    is_reentrant: bool
    state: CallState


class TorchCall:
    """A call of a torch function, a `torch.autograd.Function`, or a leaf function.

    Attributes:
        function: the function as torch passes it to a function mode.
        args: the positional arguments; lists and dictionaries as they were at the call.
        kwargs: the keyword arguments, likewise.
        result: its result.
        version: torch's count of in-place changes to the result at its return; -1 if it is not a plain tensor.
        module_call: the innermost enclosing call of a module.
        frames: from the call outwards, to where `module_call` begins.
        state: the state of torch's switches.
        kind: `SIZE`, `VALUE`, or 0 for a computation.
        region: the enclosing checkpoints, the outermost first.
        serial: its number among all calls, in order of their beginnings.
    """

    __slots__ = (
        "args",
        "frames",
        "function",
        "kind",
        "kwargs",
        "module_call",
        "region",
        "result",
        "serial",
        "state",
        "version",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        module_call: ModuleCall,
        frames: Frames,
        state: CallState,
        region: tuple[Region, ...],
        kind: int,
    ) -> None:
        self.function, self.args, self.kwargs, self.module_call = function, args, kwargs, module_call
        self.frames, self.state, self.region, self.kind = frames, state, region, kind
        self.result: Any = None
        self.version = -1
        self.serial = 0


class Frozen(NamedTuple):
    """A read of a size, which the program continued with as a fixed value."""

    step: int
    what: str
    value: object
    frames: Frames
    module_call: ModuleCall


Step: TypeAlias = "ModuleCall | TorchCall"


class Change(NamedTuple):
    """The replacement of a value by another, and the innermost call in which that happened."""

    what: str
    inside: Step
