"""Formats numbers with units, short enough to compare in a column."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_wrapper.events import Number


def format_duration(duration_us: float) -> str:
    """Microseconds in a suitable unit: "80 us", "28.3 ms", "1.10 s", "2 min 5 s", "3 h 2 min"."""
    if duration_us < 999.5:
        return f"{duration_us:.0f} us"
    if duration_us < 999_950:
        return f"{duration_us / 1e3:.1f} ms"
    if duration_us < 59_995_000:
        return f"{duration_us / 1e6:.2f} s"
    seconds = round(duration_us / 1e6)
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def format_number(number: Number | None) -> str:
    """A statistic with four significant digits; "-" for None."""
    if number is None:
        return "-"
    return f"{number:.4g}" if isinstance(number, float) else str(number)


def format_count(count: int, noun: str) -> str:
    """A count with its noun: "1 step", "1,200 steps"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_size(size_bytes: int) -> str:
    """Bytes in a suitable unit: "812 bytes", "24.3 kB", "148.6 MB", "1.2 GB"."""
    if size_bytes < 1000:
        return format_count(size_bytes, "byte")
    size = size_bytes / 1e3
    for unit in ("kB", "MB"):
        if size < 999.95:
            return f"{size:.1f} {unit}"
        size /= 1e3
    return f"{size:,.1f} GB"


def format_ranks(ranks: Sequence[int]) -> str:
    """Ranks in words, with consecutive ones as ranges: "rank 0", "ranks 0-3, 7"."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    words = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)
    return f"rank{'s' if len(ranks) > 1 else ''} {words}"
