"""What is observed of a profiled run: scopes, the calls in them, and the backward calls of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from proxy_views.profile.flops import UNKNOWN, FlopCounts

if TYPE_CHECKING:
    from proxy_views.profile.storages import Data


class Scope:
    """Where calls are made: a module's name within the scope of its caller. Two calls of a module there share it.

    Attributes:
        name: the qualified name of the module; None for the outermost scope, outside of the model.
        parent: the scope around it.
        calls: how often the module was called there.
        recomputed: how many of these calls an activation checkpoint made.
        inputs: the input tensors of each call.
        outputs: the output tensors of each call.
    """

    __slots__ = ("below", "calls", "inputs", "name", "number", "outputs", "parent", "recomputed", "rest")

    def __init__(self, name: str | None, parent: Scope | None, number: int) -> None:
        self.name, self.parent, self.number = name, parent, number
        self.calls = self.recomputed = 0
        self.inputs: list[tuple[Data, ...]] = []
        self.outputs: list[tuple[Data, ...]] = []
        self.below: dict[str | None, Scope] = {}
        self.rest: Call | None = None


class BackwardCall(NamedTuple):
    """A call that autograd made for the gradient of another call."""

    operation: Any
    flops: FlopCounts
    duration_ns: int
    communicated: int


class Call:
    """A call of an operation in the forward pass, or of a plain function that stands for the calls inside it.

    Attributes:
        operation: the operation of torch, or the plain function; None for what belongs to a module but to none of its
            calls.
        scope: where it was made.
        number: its place in the order of all calls.
        flops: of the forward pass.
        duration_ns: of the forward pass.
        inputs: its input tensors.
        outputs: its output tensors.
        saved: the tensors saved for its backward pass.
        backward: the calls for its gradients.
        inner: what was called inside a plain function.
        communicated: the bytes passed to collectives.
        is_recomputed: whether an activation checkpoint recomputed it.
        stated: the FLOPs of both passes registered for a plain function.
        places: the places reported by the profiler's caller; for a plain function, those of all calls inside it.
    """

    __slots__ = (
        "backward",
        "communicated",
        "duration_ns",
        "flops",
        "inner",
        "inputs",
        "is_recomputed",
        "number",
        "operation",
        "outputs",
        "places",
        "saved",
        "scope",
        "stated",
    )

    def __init__(self, operation: Any, scope: Scope, number: int, *, is_recomputed: bool) -> None:
        self.operation, self.scope, self.number, self.is_recomputed = operation, scope, number, is_recomputed
        self.flops = UNKNOWN
        self.duration_ns = self.communicated = 0
        self.inputs: tuple[Data, ...] = ()
        self.outputs: tuple[Data, ...] = ()
        self.saved: list[Data] = []
        self.backward: list[BackwardCall] = []
        self.inner: list[BackwardCall] = []
        self.stated: tuple[int, int] | None = None
        self.places: tuple[int, ...] = ()
