"""Shows a summary as text."""

from __future__ import annotations

import shlex
import textwrap
from typing import TYPE_CHECKING, Final

from proxy_trace.checks.all_checks import all_rules
from proxy_trace.checks.check import FINDING, LEFT_OUT, NOT_CHECKED, PASSED
from proxy_trace.checks.evidence import RECORDED_LEVELS, is_recorded
from proxy_trace.checks.finding import ERROR, NOTE, WARNING, grouped
from proxy_trace.checks.non_finite_values import NON_FINITE
from proxy_trace.process.module_tree import ModuleTree
from proxy_trace.terminal.line_width import fitted, fitted_command
from proxy_trace.terminal.table import format_table, lines_of_a_row
from proxy_trace.terminal.units import format_count, format_duration, format_number, format_ranks, format_size
from proxy_wrapper.events import TRAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from proxy_trace.checks.check import CheckResult
    from proxy_trace.checks.finding import Finding
    from proxy_trace.checks.rule import Rule
    from proxy_trace.process.process_summary import ModuleSummary, ProcessSummary, TensorSummary
    from proxy_trace.summary.run_summary import Summary
    from proxy_trace.terminal.colour import Palette
    from proxy_wrapper.events import Statistics

NOT_RECORDED: Final = "not recorded"
INFO_LEVEL: Final = "INFO"
_SHOWN_FINDINGS: Final = 20
_DEEPEST_SHOWN: Final = 40
_WIDTH: Final = 78
_KEY_WIDTH: Final = 13
_STATES: Final = (PASSED, FINDING, NOT_CHECKED, LEFT_OUT)
_COLOURS: Final = {ERROR: "red", WARNING: "yellow", NOTE: "cyan"}


def summary_lines(
    summary: Summary,
    palette: Palette,
    *,
    rules: Mapping[str, Rule] | None = None,
    tables_of_all: bool = False,
    width: int | None = None,
) -> Iterator[str]:
    """The lines of the report: the run, what looks wrong, then the tables.

    Args:
        summary: what to report.
        palette: colours for a terminal.
        rules: the rules of the findings, by code; those of all checks by default.
        tables_of_all: whether to show the tables of every process. Otherwise only those of one process: preferably one
            that called modules, then one that trained, then the one with the most modules.
        width: the number of columns available; None for no limit.
    """
    for line in _header_lines(summary, palette):
        yield from (line,) if width is None else fitted(line, width, _KEY_WIDTH)
    findings = _finding_lines(summary, all_rules() if rules is None else rules, palette, width)
    for line in findings:
        yield from (line,) if width is None or line.endswith("\\") else fitted(line, width)
    processes = summary.processes
    if not tables_of_all:
        processes = [max(processes, key=_telling)]
    for process in processes:
        of = f" of rank {process.rank}, process {process.pid}" if len(summary.processes) > 1 else ""
        table = _Tables(process, of, palette, width)
        yield from table.modules()
        yield from table.tensors("Parameters", [t for t in process.tensors if not t.is_buffer])
        yield from table.tensors("Buffers", [t for t in process.tensors if t.is_buffer])
    left_out = len(summary.processes) - len(processes)
    if left_out:
        yield ""
        words = "1 more process has tables" if left_out == 1 else f"{left_out} more processes have tables"
        words = f"{words} too; {_how_to_see_another(summary, processes[0])}."
        for line in [words] if width is None else fitted(words, width, 0):
            yield palette.paint(line, "dim")


def _telling(process: ProcessSummary) -> tuple[bool, bool, int]:
    """The key by which the process with the most informative tables is chosen."""
    return process.module_calls > 0, process.steps > 0, len(process.modules)


def _how_to_see_another(summary: Summary, shown: ProcessSummary) -> str:
    """How to see the tables of another process. A rank may have several, such as workers that share a model."""
    if len({process.rank for process in summary.processes}) == len(summary.processes):
        return "--rank N shows those of a rank"
    another = max((process for process in summary.processes if process is not shown), key=_telling)
    return f"`proxy-trace summary {shlex.quote(another.file)}` shows those of another"


def _header_lines(summary: Summary, palette: Palette) -> Iterator[str]:
    yield palette.paint(" ".join([summary.script, *map(shlex.quote, summary.argv)]), "bold")
    for key, words in header_rows(summary):
        yield f"  {key:<{_KEY_WIDTH - 4}}  {words}"


def header_rows(summary: Summary) -> Iterator[tuple[str, str]]:
    """What ran, with which versions, and how much was recorded, as pairs of a title and words."""
    started = summary.started.replace("T", " ").partition(".")[0].partition("+")[0]
    yield "run", f"{summary.run}, started {started} UTC, {format_duration(summary.duration_us)} long"
    yield "software", f"Python {summary.python}, torch {summary.torch}, proxy_wrapper {summary.version}"
    processes = len(summary.processes)
    if processes > 1 or summary.world_size > 1:
        ranks = f"{format_ranks(summary.ranks)} of {summary.world_size}"
        counted = "1 process" if processes == 1 else f"{processes} processes"
        yield "processes", f"{counted}, {ranks}"
    yield "training", _training_words(summary)
    yield from _recording_rows(summary)
    if summary.period:
        yield "period", f"only {summary.period}"
    if summary.against is not None:
        differs = format_count(len(summary.against.deviations), "difference")
        yield "good run", f"{summary.against.run}: {differs}, values aside"
    size = sum(process.size_bytes for process in summary.processes)
    yield "trace", f"{format_count(summary.events, 'event')}, {format_size(size)}"


def _recording_rows(summary: Summary) -> Iterator[tuple[str, str]]:
    """The stages, if there are several, and what the settings left out of the trace."""
    process = max(summary.processes, key=lambda process: (process.steps, process.module_calls))
    if set(process.stages) - {TRAIN}:
        parts = []
        for name, stage in process.stages.items():
            counts = [format_count(stage.steps, "step")] if stage.steps else []
            counts += [format_count(stage.outermost_calls, "call")] if stage.outermost_calls or not counts else []
            parts.append(f"{name} ({', '.join(counts)})")
        yield "stages", ", ".join(parts)
    sampled = {(module.first, module.every) for module in process.modules if module.every > 1}
    unwatched = sum(not tensor.watched for tensor in process.tensors)
    left_out = [
        f"1 of {every:,} steps" + (f" after the first {first:,}" if first else "") for first, every in sorted(sampled)
    ]
    words = [f"only {' or '.join(left_out)} (of {process.steps_made:,})"] if left_out else []
    if process.limited_at_step is not None:
        words.append(f"only changes of state from step {process.limited_at_step:,} on (max_size)")
    if unwatched:
        words.append(f"{format_count(unwatched, 'tensor')} not watched")
    if words:
        yield "recorded", "; ".join(words)


def _training_words(summary: Summary) -> str:
    """Steps and backward passes of the process with the most, and whether only a sample was recorded."""
    process = max(summary.processes, key=lambda process: (process.steps, process.backward_passes))
    is_sample = any(module.every > 1 for module in process.modules)
    recorded = " recorded" if is_sample else ""
    if not process.steps:
        by_hand = process.steps_made if any(tensor.gradients for tensor in process.tensors) else 0
        words = f"{format_count(by_hand, 'step')} without an optimizer" if by_hand else _no_step_words(process)
    elif len(process.optimizers) == 1:
        words = f"{format_count(process.steps, 'step')}{recorded} of {next(iter(process.optimizers)) or 'an optimizer'}"
    else:
        parts = ", ".join(f"{name} {count:,}" for name, count in process.optimizers.items())
        words = f"{format_count(process.steps, 'step')}{recorded} ({parts})"
    if process.backward_passes:
        passes = "1 backward pass" if process.backward_passes == 1 else f"{process.backward_passes:,} backward passes"
        words += f", {passes}{recorded} ({format_duration(process.backward_us)})"
    return words


def _no_step_words(process: ProcessSummary) -> str:
    """Says that there was no step, or that steps were not recorded."""
    is_quiet = process.modules and not any(map(is_recorded, process.modules))
    return f"{NOT_RECORDED} (level WARNING)" if is_quiet else "no optimizer step was traced"


def _finding_lines(summary: Summary, rules: Mapping[str, Rule], palette: Palette, width: int | None) -> Iterator[str]:
    if all(process.is_empty for process in summary.processes):
        yield ""
        yield palette.paint(_nothing_there(summary), "yellow")
    else:
        yield ""
        yield check_words(summary.checks, palette)
    show_ranks = len(summary.processes) > 1
    for (_, code), findings in grouped(summary.findings).items():
        yield ""
        yield from _group_lines(rules[code], findings, show_ranks, palette)
        yield from _more_lines(summary, rules[code], findings[0].name, palette, width)


def _group_lines(rule: Rule, findings: list[Finding], show_ranks: bool, palette: Palette) -> Iterator[str]:
    """The findings of one rule under its title, then what to do, and how to see more."""
    count = sum(finding.names for finding in findings) if rule.counts else len(findings)
    severity = findings[0].severity  # A finding is as severe as any finding it explains.
    yield f"{palette.paint(f'{severity}[{rule.code}]', _COLOURS[severity])} {rule.title} ({count:,})"
    shown = findings[:_SHOWN_FINDINGS]
    rows = [_finding_cells(finding, rule, show_ranks) for finding in shown]
    if rule is NON_FINITE:
        rows = [[("first" if not i else "then"), *row] for i, row in enumerate(rows)]
    lines = format_table([""] * len(rows[0]), rows, "l" * len(rows[0]))[1:]
    for finding, line in zip(shown, lines, strict=True):
        yield f"  {line}"
        made = _made_words(finding)
        if made:
            yield f"         {made}"
        for each in finding.evidence:
            yield f"    {each}"
    if len(findings) > len(shown):
        yield f"  ... and {len(findings) - len(shown):,} more; --format json lists all"
    if rule.remedy:
        yield from _wrapped(f"what to do: {rule.remedy}", palette)


def _more_lines(summary: Summary, rule: Rule, name: str, palette: Palette, width: int | None) -> Iterator[str]:
    """The command that shows more about the findings of a rule."""
    if not rule.more:
        return
    more = rule.more.format(run=shlex.quote(summary.path), name=shlex.quote(name.removesuffix(".*")))
    line = f"  see more: proxy-trace {more}"
    for each in [line] if width is None or len(line) <= width else fitted_command(line, width, ""):
        yield palette.paint(each, "dim")


def _wrapped(words: str, palette: Palette) -> Iterator[str]:
    """Words, wrapped if longer than a line."""
    for line in textwrap.wrap(words, _WIDTH, break_long_words=False, break_on_hyphens=False):
        yield palette.paint(f"  {line}", "dim")


def _made_words(finding: Finding) -> str:
    """Which calls computed a non-finite output; its own module is not mentioned."""
    words = [f"{'from' if place else 'by'} {name}" for place, name in enumerate(finding.trail)]
    if finding.trail[:1] == [finding.name]:
        del words[0]
    return f"made {', '.join(words)}" if words else ""


def _finding_cells(finding: Finding, rule: Rule, show_ranks: bool) -> list[str]:
    name = finding.name
    if finding.names > 1 and rule.counts:
        name += f" ({finding.names:,} {rule.counts}s)"
    elif finding.names > 1:
        name += f" ({finding.names - 1:,} below)"
    details = [finding.reason]
    if finding.step is not None:
        details.append(f"at step {finding.step:,}")
    if finding.place:
        details.append(finding.place)
    if show_ranks and finding.ranks:
        details.append(format_ranks(finding.ranks))
    return [name, ", ".join(details)]


def _nothing_there(summary: Summary) -> str:
    """Says that nothing happened in the period, and where something did."""
    last_step = max(process.last_step_outside for process in summary.processes)
    stages = list(dict.fromkeys(stage for process in summary.processes for stage in process.stages_outside))
    if not stages:
        return "Nothing happened in this period or in the rest of the run."
    steps = f"steps 0 to {last_step:,}" if last_step else "step 0"
    return f"Nothing happened in this period. The run has {steps}, and the stages {', '.join(stages)}."


def check_words(checks: Sequence[CheckResult], palette: Palette) -> str:
    """How many checks passed, and what was not checked. "Nothing looks wrong" requires that something was checked."""
    by_state = {state: [check for check in checks if check.state == state] for state in _STATES}
    passed, found = by_state[PASSED], by_state[FINDING]
    counted = f"{format_count(len(passed), 'check')} passed"
    if found:
        title, colour = f"{format_count(len(found), 'check')} found something", "red"
        counted = f"{', '.join(check.name for check in found)}; {counted}"
    elif any(check.is_doubtful for check in checks):
        title, colour = "No check found anything", "yellow"
    elif any(check.is_of_model for check in passed):
        title, colour = "Nothing else looks wrong" if by_state[LEFT_OUT] else "Nothing looks wrong", "green"
    else:
        title, colour = "Nothing of the model was recorded", "yellow"
    parts = [counted]
    in_part = [check for check in passed if check.unseen]
    if in_part:
        parts.append(f"in part: {_unseen_words(in_part)}")
    if by_state[NOT_CHECKED]:
        parts.append(f"not checked: {_unseen_words(by_state[NOT_CHECKED])}")
    left_out = sum(check.left_out for check in checks)
    if left_out:
        parts.append(f"{format_count(left_out, 'finding')} left out, known or not chosen")
    return f"{palette.paint(f'{title}:', colour)} {'; '.join(parts)}."


def _unseen_words(checks: Sequence[CheckResult]) -> str:
    """The checks, grouped by what they could not see: "losses, gradients (level WARNING), ranks (...)"."""
    names: dict[str, list[str]] = {}
    for check in checks:
        names.setdefault("; ".join(check.unseen), []).append(check.name)
    return ", ".join(f"{', '.join(of_reason)} ({reason})" for reason, of_reason in names.items())


class _Tables:
    """The tables of a process."""

    def __init__(self, process: ProcessSummary, of: str, palette: Palette, width: int | None) -> None:
        self._process = process
        self._of = of
        self._palette = palette
        self._width = None if width is None else width - 2
        self._levels = {module.id: module.level for module in process.modules}

    def modules(self) -> Iterator[str]:
        """The tree of modules with their calls."""
        if not self._process.modules:
            return
        rows = []
        for module, depth in ModuleTree(self._process.modules).walk():
            raised = f" ({module.raised:,} raised)" if module.raised else ""
            rows.append(
                [
                    "  " * min(depth, _DEEPEST_SHOWN) + (_last_part(module) if depth else module.name),
                    module.type,
                    call_words(module) + raised,
                    format_duration(module.total_us) if module.ended else "-",
                    format_duration(module.mean_us) if module.ended else "-",
                    f"{module.parameters:,}" if module.parameters else "-",
                ]
            )
        header = ["name", "type", "calls", "total", "mean", "parameters"]
        yield from self._table("Modules", header, rows, "llrrrr")

    def tensors(self, title: str, tensors: list[TensorSummary]) -> Iterator[str]:
        """A table of parameters or buffers, and how their values moved."""
        if not tensors:
            return
        rows = [
            [
                tensor.name + (f" (= {', '.join(tensor.aliases)})" if tensor.aliases else ""),
                tensor.type,
                self._update_words(tensor),
                _change(tensor.first, tensor.last, "minimum"),
                _change(tensor.first, tensor.last, "maximum"),
                format_number(tensor.last.norm) if tensor.last else "-",
                format_number(tensor.last_gradient.norm) if tensor.last_gradient else "-",
            ]
            for tensor in tensors
        ]
        header = ["name", "type", "updates", "minimum", "maximum", "norm", "gradient norm"]
        if title == "Buffers":
            rows = [row[:-1] for row in rows]
            header.pop()
        yield from self._table(title, header, rows, "llrllrr"[: len(header)], header.index("minimum"))

    def _update_words(self, tensor: TensorSummary) -> str:
        """The number of updates; "not recorded" is distinct from 0."""
        if tensor.update_count:
            return f"{tensor.update_count:,}"
        if tensor.removed:
            return "removed"
        is_told = tensor.watched and self._levels.get(tensor.module, INFO_LEVEL) in RECORDED_LEVELS
        return "0" if is_told else NOT_RECORDED

    def _table(
        self, title: str, header: list[str], rows: list[list[str]], sides: str, break_before: int | None = None
    ) -> Iterator[str]:
        yield ""
        yield self._palette.paint(title + self._of, "bold")
        of_header = lines_of_a_row(header, rows, self._width, break_before)
        for number, line in enumerate(format_table(header, rows, sides, self._width, break_before)):
            yield "  " + (line if number >= of_header else self._palette.paint(line, "dim"))


def call_words(module: ModuleSummary) -> str:
    """The number of calls; "not recorded" and "not seen" are distinct from 0."""
    if module.calls:
        return f"{module.calls:,}"
    if module.removed:
        return "removed"
    if not is_recorded(module):
        return NOT_RECORDED
    return "0" if module.calls_seen else "not seen"


def _last_part(module: ModuleSummary) -> str:
    """The part of a module's name after its parent's. The name of a wrapper encloses that of the wrapped module."""
    around, _, held = module.name.rpartition("(")
    if around.startswith(module.type):
        return f"{around}({held.rpartition('.')[2]}"
    return module.name.rpartition(".")[2]


def _change(first: Statistics | None, last: Statistics | None, field: str) -> str:
    """The first and the last value of a statistic."""
    before = format_number(getattr(first, field, None))
    after = format_number(getattr(last, field, None))
    return before if before == after else f"{before} -> {after}"
