"""Finds a call in a run, and its order of execution."""

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
    """The order of a call, and its position in the run.

    Attributes:
        order: the order.
        run: the header of the process that made the call.
        place: the line that called the model; None if unknown.
    """

    order: ExecutionOrder
    run: Run
    place: Place | None


def find_order(
    trace: Trace, period: Period | None = None, is_module: GlobMatcher | None = None, leaf_rule: LeafRule = "fsdp"
) -> RunOrder:
    """The order of the first wanted call, in the first process that has one. Reads no further than its end.

    Args:
        trace: the run.
        period: the steps and stages of the call; None for any.
        is_module: whether a module with this name is wanted; None for a model that is not part of another.
        leaf_rule: as `execution_order` has it.

    Raises:
        NoCallError: if there is no such call.
        UnknownClassesError: if the trace lacks the classes' modules, which the leaf rule needs.
        OrderTooLongError: if the call exceeds the limits.
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
