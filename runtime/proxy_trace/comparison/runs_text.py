"""Shows the comparison of two runs as text."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from proxy_trace.states.differences_text import how_often, values_apart
from proxy_trace.terminal.table import format_table
from proxy_trace.terminal.units import format_count, format_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_trace.comparison.runs import CallDifference, ComparedRun, RunComparison, RunDifference
    from proxy_trace.terminal.colour import Palette

_SHOWN: Final = 20
_MEANINGS: Final = {
    "start": "They were initialised, or loaded, differently: look at seeds and checkpoints.",
    "output": "The parameters agree so far: look at what went into this module, at what is random, at the settings.",
    "gradient": "The same parameters had other gradients: look at the data, at what is random, at the loss.",
    "optimizer state": "The same gradients made other optimizer state: look at the optimizer and its settings.",
    "parameter": "The same gradients made other parameters: look at the optimizer, its settings and its state.",
    "buffer": "The parameters agree so far: look at what goes through the modules with these buffers.",
}


def run_lines(found: RunComparison, palette: Palette) -> Iterator[str]:
    """The lines of the report: the two runs, where they first differ, what differs, and what only one has."""
    first, second = found.runs
    yield from head_lines(found.runs, found.ranks, palette)
    tensors = format_count(found.tensors, "parameter or buffer").replace(
        "parameter or buffers", "parameters and buffers"
    )
    yield f"  compared   {tensors} after {format_count(found.steps, 'step')}"
    if found.by_statistics:
        yield f"  by norms   {by_norms(found.by_statistics)}"
    yield ""
    if found.configuration:
        yield palette.paint("The runs differ in torch's settings:", "red")
        yield from (f"  {setting}" for setting in found.configuration)
        yield ""
    yield _verdict(found, palette)
    yield from _call_lines(found.calls, palette, with_rank=len(found.ranks) > 1)
    if found.differences:
        yield ""
        yield from _table(found.differences, with_rank=len(found.ranks) > 1, palette=palette)
    lines = [*_only_lines(found), *_end_lines(first, second), *found.limits]
    if lines:
        yield ""
        yield palette.paint("Not compared", "yellow")
        yield from (f"  {line}" for line in lines)


def head_lines(runs: Sequence[ComparedRun], ranks: Sequence[int], palette: Palette) -> Iterator[str]:
    """The two runs: commands, versions if they differ, ranks."""
    first, second = runs
    for name, run in zip(("first", "second"), runs, strict=True):
        command = " ".join([run.script, *map(shlex.quote, run.argv)])
        yield f"  {name:<9}  {palette.paint(run.run, 'bold')}  {command}"
    for name, versions in (("Python", (first.python, second.python)), ("torch", (first.torch, second.torch))):
        if versions[0] != versions[1]:
            yield f"  {name:<9}  {versions[0]} | {versions[1]}"
    if len(ranks) > 1 or first.ranks != second.ranks:
        yield f"  ranks      {format_ranks(ranks)}"


def _verdict(found: RunComparison, palette: Palette) -> str:
    if found.differences:
        earliest = found.differences[0]
        where = "from the start" if earliest.kind == "start" else f"from step {earliest.first_step:,} on"
        return palette.paint(f"The runs differ {where}.", "red") + f" {_MEANINGS[earliest.kind]}"
    when = (
        f"after each of the {format_count(found.steps, 'step')} compared" if found.steps else "at their start and end"
    )
    if any(found.only_in) or found.other_shape:
        return palette.paint(f"What both runs have agrees {when}; but not all is in both.", "yellow")
    return palette.paint(
        f"{'Their values' if found.configuration or found.calls else 'The runs'} agree {when}.", "green"
    )


def by_norms(count: int) -> str:
    """A line that says that norms were compared, because there are no fingerprints."""
    tensors = format_count(count, "tensor")
    return f"{tensors} without fingerprints in one of the traces: compared by minimum, maximum and norm"


def _call_lines(calls: Sequence[CallDifference], palette: Palette, *, with_rank: bool) -> Iterator[str]:
    for each in calls[:_SHOWN]:
        rank = f" in rank {each.rank}" if with_rank else ""
        counts = " | ".join(f"{count:,}" for count in each.calls)
        yield palette.paint(f"The number of calls differs{rank} from step {each.first_step:,} on: {counts}.", "red") + (
            " --records shows which."
        )
    if len(calls) > _SHOWN:
        yield palette.paint(f"and in {len(calls) - _SHOWN:,} more ranks; --format json has all.", "dim")


def _table(differences: Sequence[RunDifference], *, with_rank: bool, palette: Palette) -> Iterator[str]:
    rows = []
    for each in differences[:_SHOWN]:
        is_start = each.kind == "start"
        row = [
            "start" if is_start else str(each.first_step),
            "value" if is_start else each.kind,
            each.name,
            str(each.rank),
            "" if is_start else how_often(each),
            values_apart(each.values),
        ]
        rows.append(row if with_rank else [*row[:3], *row[4:]])
    header = ["from step", "what", "name", "rank", "differs", "first | second"]
    sides = "rllrll"
    if not with_rank:
        header.remove("rank")
        sides = "rllll"
    for number, line in enumerate(format_table(header, rows, sides)):
        yield "  " + (line if number else palette.paint(line, "dim"))
    if len(differences) > _SHOWN:
        yield palette.paint(f"  and {len(differences) - _SHOWN:,} more; --format json has all.", "dim")


def _only_lines(found: RunComparison) -> Iterator[str]:
    for name, only in zip(("first", "second"), found.only_in, strict=True):
        if only:
            yield f"only in the {name} run: {_few(only)}"
    if found.other_shape:
        yield f"of another shape, dtype or place: {_few(found.other_shape)}"
    first, second = found.runs
    for name, run, other in (("first", first, second), ("second", second, first)):
        ranks = sorted(set(run.ranks) - set(other.ranks))
        if ranks:
            yield f"only in the {name} run: {format_ranks(ranks)}"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _end_lines(first: ComparedRun, second: ComparedRun) -> Iterator[str]:
    if first.last_step == second.last_step:
        return
    name, shorter, longer = (
        ("first", first, second) if first.last_step < second.last_step else ("second", second, first)
    )
    came = f"ended after step {shorter.last_step:,}" if shorter.last_step >= 0 else "ended before its first step"
    how = shorter.end or "killed, or still running"
    yield f"the {name} run {came} ({how}), the other after step {longer.last_step:,}"
