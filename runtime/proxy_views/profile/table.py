"""A profile as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy_trace.terminal.table import format_table
from proxy_trace.terminal.units import format_duration, format_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_views.profile.flop_totals import FlopTotals
    from proxy_views.profile.rows import ProfileRow

_COLUMNS = (
    *("Op type", "Op", "Accumulate", "Incremental", "Output", "Temp", "Param", "Backward size"),
    *("Fwd FLOPs", "Bwd FLOPs", "Fwd time", "Bwd time"),
)
_OF_DEVICE = ("Fwd on device", "Bwd on device")


def profile_table(
    rows: Sequence[ProfileRow],
    total: FlopTotals,
    saved_bytes: int,
    without_formula: Sequence[str],
    *,
    has_device: bool,
) -> str:
    """The rows, with siu's columns and the times; below them the sums, and what they omit."""
    header = (*_COLUMNS, *_OF_DEVICE) if has_device else _COLUMNS
    lines = format_table(header, [_cells(row, has_device=has_device) for row in rows], "ll" + "r" * (len(header) - 2))
    lines += ["", f"{total.forward:,} FLOPs forward, {total.backward:,} backward; {format_size(saved_bytes)} saved"]
    if without_formula:
        lines.append(f"FLOPs unknown, not in the sums: {', '.join(without_formula)}")
    return "\n".join(lines)


def _cells(row: ProfileRow, *, has_device: bool) -> tuple[str, ...]:
    marks = [mark for mark, is_so in (("alias", row.is_alias), ("recomputed", row.is_recomputed)) if is_so]
    name = row.name or "(model)"
    cells = (
        row.type if row.kind == "module" else row.kind,
        f"{name} ({', '.join(marks)})" if marks else name,
        *(
            format_size(size)
            for size in (
                *(row.accumulated_bytes, row.saved_bytes, row.output_bytes, row.temporary_bytes),
                *(row.parameter_bytes, row.input_gradient_bytes),
            )
        ),
        *("-" if flops is None else f"{flops:,}" for flops in (row.forward_flops, row.backward_flops)),
        *(format_duration(seconds * 1e6) for seconds in (row.forward_s, row.backward_s)),
    )
    if not has_device:
        return cells
    computed = (row.device_forward_s, row.device_backward_s)
    return (*cells, *("-" if seconds is None else format_duration(seconds * 1e6) for seconds in computed))
