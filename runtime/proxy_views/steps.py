"""The steps of a recording: calls of modules and of functions, and what was read or changed in them."""

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
        module: what was called.
        parent: the call that it was made in; None for that of the model.
        args: by position, as they were when it was called.
        kwargs: by keyword.
        output: what it gave back.
        frames: from the call outwards, to where its parent begins.
        is_opaque: whether what it calls is not seen.
        end: the number of the first step behind it.
        region: the checkpoints that it is called in.
        serial: its number among all calls that have begun.
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
        self.hook = 0  # The key of the hook of ours that waits for the call to end.


class Region(NamedTuple):
    """An activation checkpoint.

    Attributes:
        number: among those of the region that it is in.
        is_reentrant: how it recomputes.
        state: which of torch's switches were on where it was called.
    """

    number: int
    is_reentrant: bool
    state: CallState


class TorchCall:
    """A call of a function: torch's, a `torch.autograd.Function`'s, or one that was named as a leaf.

    Attributes:
        function: as torch names it to a function mode.
        args: by position; lists and dictionaries as they were when it was called.
        kwargs: by keyword.
        result: what it gave back.
        version: how often torch had counted a change of the result in place, when it gave it; -1 if that is no tensor.
        module_call: the innermost call of a module that it was made in.
        frames: from the call outwards, to where that begins.
        state: which of torch's switches were on.
        kind: `SIZE`, `VALUE`, or 0 for what is computed.
        region: the checkpoints that it is made in, the outermost first.
        serial: its number among all calls that have begun.
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
    """Something that the program read from a size, and went on with as a fixed value."""

    step: int
    what: str
    value: object
    frames: Frames
    module_call: ModuleCall


Step: TypeAlias = "ModuleCall | TorchCall"


class Change(NamedTuple):
    """A value that the program goes on with in the place of another, and the innermost call that it was changed in."""

    what: str
    inside: Step
