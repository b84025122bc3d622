"""The order of execution in a run: looks for the call, and says where it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from proxy_trace.errors import NoCallError
from proxy_trace.order.execution_order import ExecutionOrder, LeafRule, execution_order
from proxy_trace.reading.places import Place, find_place
from proxy_trace.reading.selection import Period

if TYPE_CHECKING:
    from proxy_trace.reading.selection import GlobMatcher
    from proxy_trace.reading.trace import Trace
    from proxy_wrapper.events import CallModule, Module, Run


class RunOrder(NamedTuple):
    """The order of a call, and where in the run it is.

    Attributes:
        order: the order.
        run: the header of the process that made the call.
        place: the line that called the model; None if the trace does not have it.
    """

    order: ExecutionOrder
    run: Run
    place: Place | None


def find_order(
    trace: Trace, period: Period | None = None, is_module: GlobMatcher | None = None, leaf_rule: LeafRule = "fsdp"
) -> RunOrder:
    """The order of the first call that is wanted, in the first process that has one. Reads no further than its end.

    Args:
        trace: the run.
        period: in which steps and stages the call is; None for any.
        is_module: says of the name of a module whether it is the one; None for a model that is part of no other.
        leaf_rule: as `execution_order` has it.

    Raises:
        NoCallError: if there is no such call.
        UnknownClassesError: if the trace does not say where classes are defined, which the leaf rule asks for.
        OrderTooLongError: if the call holds more than is kept.
        UnreadableFileError: if the file system refuses.
    """
    period = period or Period()

    def is_wanted(call: CallModule, module: Module | None) -> bool:
        if module is None or not period.has(call):
            return False
        return is_module(module.name) if is_module is not None else not module.parent

    for file in trace.files:
        reading = file.read()
        try:
            order = execution_order(reading, leaf_rule, is_wanted=is_wanted)
        except NoCallError:
            continue
        return RunOrder(order, file.run, find_place(order.call.location, reading.names))
    what = "" if is_module is None else " of such a module"
    when = str(period)
    raise NoCallError(f"{what}{f' in {when}' if when else ''}")
