"""Renders measurements as a table, in plain text or Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overhead.variants import VARIANTS
from overhead.workloads import MEMORY_TARGET, describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overhead.measurement import Measurement

HEADINGS = (
    "variant", "cpu", "quartiles", "range", "target", "wall", "quiet", "cpu/step", "records/step", "bytes/step",
    "us/record", "memory", "weights", "same detail",
)  # fmt: skip


def render(measurements: Sequence[Measurement], form: str) -> str:
    """The measurements of one workload with a title; `form` is "text" or "markdown"."""
    first = measurements[0]
    title = f"{first.workload}: {describe(first.workload).title}"
    note = f"{first.rounds} rounds of {first.steps // first.rounds} steps, in {first.launches} launches"
    ratios = {one.variant: one.cpu_ratio for one in measurements}
    return titled_table(title, note, [HEADINGS, *(_cells(one, ratios) for one in measurements)], form)


def titled_table(title: str, note: str, rows: Sequence[Sequence[str]], form: str) -> str:
    """A table whose first row are the headings, below its title; columns that are empty throughout are left out."""
    used = [i for i in range(len(rows[0])) if any(row[i] not in ("", "-") for row in rows[1:])]
    widths = [max(len(row[i]) for row in rows) for i in used]
    padded = [[row[i].ljust(width) for i, width in zip(used, widths, strict=True)] for row in rows]
    if form == "markdown":
        lines = ["| " + " | ".join(row) + " |" for row in padded]
        lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return "\n".join([f"### {title}", "", note, "", *lines, ""])
    return "\n".join([title, note, *("  ".join(row).rstrip() for row in padded), ""])


def _cells(one: Measurement, ratios: dict[str, float]) -> tuple[str, ...]:
    return (
        one.variant,
        f"{one.cpu_ratio:.3f}",
        f"{one.cpu_low:.3f}-{one.cpu_high:.3f}",
        f"{one.cpu_least:.2f}-{one.cpu_most:.2f}",
        "-" if one.target is None else f"{one.target:.2f} {'met' if one.meets_target else 'MISSED'}",
        f"{one.wall_ratio:.3f}",
        f"{one.quiet_ratio:.3f}",
        f"{one.cpu_ms:.2f} ms",
        f"{one.records_per_step:.1f}" if one.records_per_step else "-",
        f"{one.bytes_per_step:.0f}" if one.bytes_per_step else "-",
        f"{one.us_per_record:.1f}" if one.us_per_record is not None else "-",
        f"{one.memory_ratio:.3f}" + ("" if one.meets_memory_target else f" (> {MEMORY_TARGET}, MISSED)"),
        "equal" if one.weights_equal else "DIFFER",
        _comparison(one, ratios),
    )


def _comparison(one: Measurement, ratios: dict[str, float]) -> str:
    """How this variant stands to our level of the same detail: what it adds to a step, over what ours adds."""
    level = VARIANTS[one.variant].same_detail
    if level not in ratios:
        return "-"
    theirs, ours = one.cpu_ratio - 1, ratios[level] - 1
    if ours <= 0:
        return f"{level}: within noise"
    return f"{theirs / ours:.1f} x {level}"
