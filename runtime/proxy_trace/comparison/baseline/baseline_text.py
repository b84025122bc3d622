"""Shows the comparison with baselines as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_trace.terminal.table import format_table
from proxy_trace.terminal.units import format_count, format_number, format_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_trace.comparison.baseline.compare_with_baseline import BaselineComparison
    from proxy_trace.terminal.colour import Palette

_SHOWN: Final = 20


def baseline_lines(found: BaselineComparison, palette: Palette) -> Iterator[str]:
    """The lines of the report: what was compared, what lies outside, and how sure that is."""
    yield f"  run        {palette.paint(found.run, 'bold')}"
    yield f"  baselines  {', '.join(found.baselines)}"
    if len(found.ranks) > 1:
        yield f"  ranks      {format_ranks(found.ranks)}"
    yield f"  compared   norms of {found.quantities:,} parameters, buffers, gradients and outputs, " + (
        format_count(found.steps, "step")
    )
    yield ""
    for name, (mine, theirs) in found.configuration.items():
        yield palette.paint(f"Torch's settings: {name} is {mine}, and {theirs} in all baselines.", "red")
    yield _verdict(found, palette)
    if found.outliers:
        yield ""
        yield from _table(found, palette)
    if found.left_out:
        yield ""
        yield palette.paint("Not compared", "yellow")
        yield f"  {found.left_out:,} that only some of the runs have, or have values of in some steps only"


def _verdict(found: BaselineComparison, palette: Palette) -> str:
    count = len(found.baselines)
    if not found.outliers:
        return palette.paint(f"Nothing lies outside what the {count} baselines give.", "green")
    chance = f"A run that differs in its seed alone is named with a probability of at most 1 in {count + 1}, and "
    chance += "for values that are spread about normally of less than 1 in 100."
    number = len(found.outliers)
    values = "1 value lies" if number == 1 else f"{number:,} values lie"
    return palette.paint(f"{values} outside what the {count} baselines give.", "red") + f" {chance}"


def _table(found: BaselineComparison, palette: Palette) -> Iterator[str]:
    rows = []
    for each in found.outliers[:_SHOWN]:
        ranges = each.ranges if isinstance(each.ranges, str) else f"{each.ranges:.3g}"
        between = f"{format_number(each.lowest)} to {format_number(each.highest)}"
        row = [str(each.first_step), each.kind, each.name, format_number(each.norm), between, ranges, str(each.rank)]  # type: ignore[arg-type]
        rows.append(row if len(found.ranks) > 1 else row[:-1])
    header = ["from step", "what", "name", "norm", "baselines", "ranges outside", "rank"]
    if len(found.ranks) == 1:
        header.pop()
    for number, line in enumerate(format_table(header, rows, "rllrlrr"[: len(header)])):
        yield "  " + (line if number else palette.paint(line, "dim"))
    if len(found.outliers) > _SHOWN:
        yield palette.paint(f"  and {len(found.outliers) - _SHOWN:,} more; --format json has all.", "dim")
