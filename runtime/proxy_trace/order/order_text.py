"""The order of execution as lines of text, and as one record for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy_trace.terminal.units import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_trace.order.execution_order import ExecutionOrder
    from proxy_trace.order.run_order import RunOrder
    from proxy_trace.terminal.colour import Palette

NO_PARAMETERS = "the model was not recorded at level DEBUG, so its trace does not say which parameters its calls use"


def order_lines(found: RunOrder, palette: Palette) -> Iterator[str]:
    """The lines: the call, the modules, the parameters, and notes."""
    order, call = found.order, found.order.call
    yield palette.paint(f"{order.root} ({order.type})", "bold")
    place = f"{found.place}, " if found.place else ""
    yield f"  call        {place}step {call.step}, {call.stage}, rank {found.run.rank}"
    calls, called = len(order.module_forward_order), len(set(order.module_forward_order))
    yield f"  modules     {format_count(calls, 'call')} of {format_count(called, 'module')}"
    used = order.param_forward_order
    yield f"  parameters  {'not known' if used is None else f'{len(used):,} used'}"
    for note in _notes(order):
        yield palette.paint(f"  note        {note}", "yellow")
    yield ""
    yield palette.paint("Modules, in the order of their calls", "bold")
    yield from _numbered([name or order.root for name in order.module_forward_order])
    if used:
        yield ""
        yield palette.paint("Parameters, in the order of their first use", "bold")
        yield from _numbered(used)


def _notes(order: ExecutionOrder) -> Iterator[str]:
    if order.param_forward_order is None:
        yield NO_PARAMETERS
    if not order.is_whole:
        yield "the trace ends before the call does"
    if order.raised:
        yield "the call ended with an exception"
    if order.unseen:
        names = ", ".join(name or order.root for name in order.unseen)
        yield f"no torch call was recorded in {names}: it is unknown which of their parameters are used"


def _numbered(names: Sequence[str]) -> Iterator[str]:
    width = len(str(len(names)))
    for number, name in enumerate(names, 1):
        yield f"  {number:>{width}}  {name}"


def order_record(found: RunOrder) -> dict[str, Any]:
    """The same as one JSON value."""
    order, call = found.order, found.order.call
    infos = order.module_to_param_usage_infos
    return {
        "run": found.run.run,
        "rank": found.run.rank,
        "step": call.step,
        "stage": call.stage,
        "place": str(found.place) if found.place else None,
        "root": order.root,
        "type": order.type,
        "is_whole": order.is_whole,
        "raised": order.raised,
        "module_forward_order": order.module_forward_order,
        "param_forward_order": order.param_forward_order,
        "module_to_param_usage_infos": infos
        and {module: [info._asdict() for info in of_module] for module, of_module in infos.items()},
        "unseen": order.unseen,
    }
