"""FLOPs, time and communication of calls, and their sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy_views.profile.calls import BackwardCall, Call
    from proxy_views.profile.flops import Convention


class Cost(NamedTuple):
    """The cost of calls: FLOPs (None if no formula is known), nanoseconds, bytes of collectives."""

    flops: int | None
    duration_ns: int
    communicated: int

    def __add__(self, other: Cost) -> Cost:  # type: ignore[override]
        flops = self.flops if other.flops is None else other.flops + (self.flops or 0)
        return Cost(flops, self.duration_ns + other.duration_ns, self.communicated + other.communicated)


NOTHING = Cost(0, 0, 0)
UNKNOWN = Cost(None, 0, 0)


def forward_cost(call: Call, convention: Convention) -> Cost:
    """The cost of a call in the forward pass."""
    if call.operation is None:
        return NOTHING
    own = Cost(call.flops.by(convention), call.duration_ns, call.communicated)
    if not is_function(call):
        return own
    inner = sum_of(call.inner, convention) if call.inner else NOTHING
    return inner if call.stated is None else inner._replace(flops=call.stated[0])


def backward_cost(call: Call, convention: Convention) -> Cost:
    """The cost of the calls for its gradients."""
    if not call.backward:
        return NOTHING
    total = sum_of(call.backward, convention)
    return total if call.stated is None else total._replace(flops=call.stated[1])


def sum_of(calls: Iterable[BackwardCall], convention: Convention) -> Cost:
    """The total cost; FLOPs are None only if no call has a formula."""
    total = UNKNOWN
    for each in calls:
        total += Cost(each.flops.by(convention), each.duration_ns, each.communicated)
    return total


def is_function(call: Call) -> bool:
    """Whether it is a call of a plain function rather than an operation of torch."""
    return call.operation is not None and not hasattr(call.operation, "name")


def operation_name(operation: Any) -> str:
    """The name of an operation without its overload: "aten.add"."""
    return str(getattr(operation, "_overloadpacket", operation))
