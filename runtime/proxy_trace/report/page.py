"""The page of one or two runs: one HTML file that loads nothing. All text from a trace is escaped.

The run, the findings and the partings are HTML. Plots are drawn by the page's script from data packed in two elements.
The page's security policy allows no other script, and no loading.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy_trace.checks.finding import grouped
from proxy_trace.checks.finding_text import place_of
from proxy_trace.process.module_tree import ModuleTree
from proxy_trace.report.evidence import STATE, SeriesName, plot_of
from proxy_trace.report.markup import as_breakable, as_text, as_text_with_code
from proxy_trace.report.packed import PackedCurves, compressed
from proxy_trace.report.process_curves import AT_LEAST, GRADIENT, LOSS, MAXIMUM, MINIMUM, NORM, RATE, RATIO
from proxy_trace.summary.summary_text import call_words, check_words, header_rows
from proxy_trace.terminal.colour import Palette, for_terminal
from proxy_trace.terminal.units import format_count, format_duration, format_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from proxy_trace.checks.finding import Finding
    from proxy_trace.checks.rule import Rule
    from proxy_trace.process.process_summary import ModuleSummary, ProcessSummary
    from proxy_trace.report.evidence import Plot
    from proxy_trace.report.process_curves import ProcessCurves
    from proxy_trace.report.script_lines import Script
    from proxy_trace.report.step_strip import Strip
    from proxy_trace.summary.run_summary import Summary

_KINDS: Final = (NORM, MINIMUM, MAXIMUM, GRADIENT, RATIO, AT_LEAST, LOSS, RATE)
_MOST_FINDINGS: Final = 20
"""The number of findings shown per rule, as in the summary."""

_MOST_EVIDENCE: Final = 20
_KEYS: Final = {
    "j / k": "next, previous finding",
    "/": "choose parameters by name",
    "Enter": "there: draw all that match",
    "left / right": "in a plot or the strip: from point to point, from call to call",
    "+ / - / 0": "in a plot: nearer, farther, all steps",
    "l": "linear or logarithmic",
    "t": "light or dark",
    "?": "these keys",
}


class DrawnProcess(NamedTuple):
    """A process whose curves are drawn; `label` distinguishes it from the others."""

    label: str
    summary: ProcessSummary
    curves: ProcessCurves


class RunPage(NamedTuple):
    """The content of a page.

    Attributes:
        summaries: of the run, or of both.
        rules: the rules of the findings, by code.
        processes: the processes drawn, of all runs.
        not_drawn: the number of other processes.
        scripts: the files of the program.
        parting: the section on where two runs part, as HTML; "" for one run.
    """

    summaries: list[Summary]
    rules: Mapping[str, Rule]
    processes: list[DrawnProcess]
    not_drawn: int
    scripts: list[Script]
    parting: str = ""


def render(page: RunPage) -> str:
    """The whole page as text."""
    return "".join(_parts(page))


def _parts(page: RunPage) -> Iterator[str]:
    series = _series(page.processes)
    folder = files("proxy_trace.report")
    plots = (folder / "uplot" / "uPlot.iife.min.js").read_text("utf-8").strip()
    licence = (folder / "uplot" / "LICENSE").read_text("utf-8")
    style = (folder / "uplot" / "uPlot.min.css").read_text("utf-8") + (folder / "page.css").read_text("utf-8")
    script = f"/*\n{licence}*/\n{plots}\n{(folder / 'page.js').read_text('utf-8')}"
    names = " | ".join(f"{summary.script} {summary.run}" for summary in page.summaries)
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script, style)}">\n'
        f'<link rel="icon" href="data:,">\n<title>{as_text(names)}</title>\n<style>{style}</style>\n</head>\n<body>\n'
    )
    yield from _header(page)
    yield "<main>\n"
    for number, summary in enumerate(page.summaries):
        yield from _findings(page, summary, number, series)
    yield page.parting
    yield _drawn_sections(page)
    yield "</main>\n"
    yield _keys()
    packed, data = _data(page, series)
    yield f'<script type="application/octet-stream" id="meta">{data}</script>\n'
    yield f'<script type="application/octet-stream" id="numbers">{packed}</script>\n'
    yield f"<script>{script}</script>\n</body>\n</html>\n"


def _policy(script: str, style: str) -> str:
    """The content security policy: allows only the page's own script and style."""
    of_script, of_style = (b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style))
    return (
        f"default-src 'none'; script-src 'sha256-{of_script}'; style-src 'sha256-{of_style}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _header(page: RunPage) -> Iterator[str]:
    yield '<header>\n<div class="title"><h1>'
    yield " <span>and</span> ".join(_command(each) for each in page.summaries)
    yield '</h1><button id="log" aria-pressed="false" title="linear or logarithmic (l)">log</button>'
    yield '<button id="theme" title="light or dark (t)">light / dark</button>'
    yield '<button id="help" title="keys (?)">?</button></div>\n<div class="runs">'
    for summary in page.summaries:
        rows = "".join(f"<dt>{as_text(key)}</dt><dd>{as_text(words)}</dd>" for key, words in header_rows(summary))
        yield f"<dl>{rows}</dl>"
    yield "</div>\n<nav>"
    parting = [("parting", "Where they part")] if page.parting else []
    for place, title in (("findings-0", "Findings"), *parting, *_SECTIONS):
        yield f'<a href="#{place}">{title}</a>'
    yield "</nav>\n<noscript>The plots, the modules and the script need JavaScript.</noscript></header>\n"


def _command(summary: Summary) -> str:
    """The command line. An argument is not broken across lines if it fits."""
    arguments = (f'<span class="argument">{as_text(each)}</span>' for each in summary.argv)
    return " ".join([as_text(summary.script), *arguments])


_SECTIONS: Final = (
    ("training", "Training"),
    ("parameters", "Parameters"),
    ("modules", "Modules"),
    ("strip", "One step"),
    ("script", "Script"),
)


def _findings(page: RunPage, summary: Summary, number: int, series: Sequence[SeriesName]) -> Iterator[str]:
    of_run = f" of {summary.run}" if len(page.summaries) > 1 else ""
    yield f'<section id="findings-{number}" class="findings">\n<h2>Findings{as_text(of_run)}</h2>\n'
    yield f'<p class="verdict">{as_text(for_terminal(check_words(summary.checks, Palette(enabled=False))))}</p>\n'
    for (severity, code), findings in grouped(summary.findings).items():
        rule = page.rules[code]
        yield (
            f'<div class="rule {severity}"><h3><span class="badge">{severity}</span> '
            f"{as_text(rule.title)} <code>{as_text(code)}</code></h3>\n"
        )
        shown: list[Plot | None] = []
        for finding in findings[:_MOST_FINDINGS]:
            plot = plot_of(finding, series)
            yield _finding(finding, rule, summary, None if plot in shown else plot)
            shown.append(plot)
        if len(findings) > _MOST_FINDINGS:
            yield f"<p>and {len(findings) - _MOST_FINDINGS:,} more; <code>proxy-trace summary</code> has all</p>\n"
        if rule.remedy:
            yield f'<p class="remedy"><b>What to do:</b> {as_text_with_code(rule.remedy)}</p>\n'
        yield "</div>\n"
    yield "</section>\n"


def _finding(finding: Finding, rule: Rule, summary: Summary, plot: Plot | None) -> str:
    name = finding.name
    if finding.names > 1:
        name += f" ({format_count(finding.names, rule.counts or 'name')})"
    place = place_of(finding)
    words = [as_text(finding.reason)]
    if finding.step is not None:
        words.append(f"at step {finding.step:,}")
    if place is not None:
        link = f'data-file="{as_text(place[0])}" data-line="{place[1]}"'
        words.append(f'<a href="#script" class="place" {link}>{as_text(finding.place)}</a>')
    elif finding.place:
        words.append(as_text(finding.place))
    if len(summary.processes) > 1 and finding.ranks:
        words.append(as_text(format_ranks(finding.ranks)))
    more = [f"made by {' from '.join(finding.trail)}"] if finding.trail else []
    lines = [*more, *finding.evidence][:_MOST_EVIDENCE]
    evidence = "".join(f"<li>{as_text(line)}</li>" for line in lines)
    drawn = ""
    if plot is not None:
        step = "" if plot.step is None else f' data-step="{plot.step}"'
        kinds = " ".join(str(_KINDS.index(kind)) for kind in plot.kinds)
        numbers = " ".join(map(str, plot.series))
        drawn = (
            f'<figure><figcaption>{as_text(plot.title)}</figcaption><div class="plot small" data-series="{numbers}" '
            f'data-kinds="{kinds}"{step}></div></figure>'
        )
    return (
        f'<article class="finding" tabindex="0"><div><b>{as_breakable(name)}</b><p>{", ".join(words)}</p>'
        f"{f'<ul>{evidence}</ul>' if evidence else ''}</div>{drawn}</article>\n"
    )


def _drawn_sections(page: RunPage) -> str:
    """The sections that the page's script fills."""
    processes = ""
    if len(page.processes) > 1 or page.not_drawn:
        boxes = "".join(
            f'<label><input type="checkbox" name="process" value="{number}" checked> <i></i>'
            f"{as_text(each.label)}</label>"
            for number, each in enumerate(page.processes)
        )
        more = "1 more process is" if page.not_drawn == 1 else f"{page.not_drawn:,} more processes are"
        left_out = f"<p>{more} not drawn; --rank N draws those of a rank.</p>"
        processes = f'<fieldset id="processes"><legend>laid over each other</legend>{boxes}</fieldset>'
        processes += left_out if page.not_drawn else ""
    return (
        f'<section id="training"><h2>Loss and learning rates</h2>{processes}'
        '<div class="plots"><figure><figcaption>loss</figcaption><div class="plot" id="loss"></div></figure>'
        '<figure><figcaption>learning rate</figcaption><div class="plot" id="rate"></div></figure></div></section>\n'
        '<section id="parameters"><h2>Parameters and buffers</h2><div class="chooser">'
        '<input id="filter" type="search" placeholder="names, such as fc weight ( / )" aria-label="choose by name">'
        '<p id="chosen" aria-live="polite"></p><div id="names"></div></div><div class="plots">'
        '<figure><figcaption>norm</figcaption><div class="plot" id="norm"></div></figure>'
        '<figure><figcaption>minimum and maximum</figcaption><div class="plot" id="extremes"></div></figure>'
        '<figure><figcaption>gradient norm</figcaption><div class="plot" id="gradient"></div></figure>'
        '<figure><figcaption>update / weight</figcaption><div class="plot" id="ratio"></div></figure></div>'
        '<p class="dim" id="thinned"></p></section>\n'
        '<section id="modules"><h2>Modules</h2><div id="tree" class="scroll"></div></section>\n'
        '<section id="strip"><h2>One step</h2><div id="calls"></div></section>\n'
        '<section id="script"><h2>Script</h2><div id="files"></div></section>\n'
    )


def _keys() -> str:
    rows = "".join(f"<dt><kbd>{as_text(key)}</kbd></dt><dd>{as_text(words)}</dd>" for key, words in _KEYS.items())
    return f'<dialog id="keys"><dl>{rows}</dl><form method="dialog"><button>close</button></form></dialog>\n'


def _series(processes: Sequence[DrawnProcess]) -> list[SeriesName]:
    """Everything with curves, in the order of the first process that has it."""
    found: dict[tuple[str, str], SeriesName] = {}
    for _, _, curves in processes:
        for place in curves.losses:
            found.setdefault((LOSS, place), SeriesName(LOSS, place))
        for optimizer in curves.rates:
            found.setdefault((RATE, optimizer), SeriesName(RATE, optimizer))
        for tensor in curves.tensors.values():
            found.setdefault(
                (STATE, tensor.name), SeriesName(STATE, tensor.name, tensor.type, is_buffer=tensor.is_buffer)
            )
        for name, _ in curves.state:  # A trace may rename a tensor later.
            found.setdefault((STATE, name), SeriesName(STATE, name))
    return list(found.values())


def _data(page: RunPage, series: Sequence[SeriesName]) -> tuple[str, str]:
    """The data to draw: the packed numbers, and everything else, as base64."""
    packed = PackedCurves()
    numbers = {(each.of, each.name): number for number, each in enumerate(series)}
    for number, (_, _, curves) in enumerate(page.processes):
        for place, points in curves.losses.items():
            packed.add(numbers[LOSS, place], number, _KINDS.index(LOSS), points)
        for optimizer, points in curves.rates.items():
            packed.add(numbers[RATE, optimizer], number, _KINDS.index(RATE), points)
        for (name, kind), points in curves.state.items():
            packed.add(numbers[STATE, name], number, _KINDS.index(kind), points)
    meta: dict[str, Any] = {
        "parts": packed.parts(),
        "lastStep": max((each.curves.last_step for each in page.processes), default=0),
        "series": [(each.of, _shown(each.name), each.type, each.is_buffer) for each in series],
        "processes": [_process_data(each) for each in page.processes],
        "findings": sorted({finding.name for summary in page.summaries for finding in summary.findings}),
        "scripts": [_script_data(script, page) for script in page.scripts],
    }
    text = json.dumps(meta, ensure_ascii=True, separators=(",", ":"))
    return packed.text(), compressed(text.encode("ascii"))


def _shown(name: str) -> str:
    return for_terminal(name)


def _process_data(process: DrawnProcess) -> dict[str, Any]:
    modules = process.summary.modules
    walked = list(ModuleTree(modules).walk())
    return {
        "label": _shown(process.label),
        "modules": [_module_row(module, depth) for module, depth in walked],
        "strip": None if process.curves.strip is None else _strip_data(process.curves.strip),
        "leftOut": process.curves.left_out,
    }


def _module_row(module: ModuleSummary, depth: int) -> list[Any]:
    """Depth, name, type, calls, total in microseconds, and texts: total, mean, parameters, notes."""
    raised = f"{module.raised:,} raised" if module.raised else ""
    times = (format_duration(module.total_us), format_duration(module.mean_us)) if module.ended else ("-", "-")
    parameters = f"{module.parameters:,}" if module.parameters else "-"
    return [
        depth,
        _shown(module.name),
        _shown(module.type),
        call_words(module),
        module.total_us,
        *times,
        parameters,
        raised,
    ]


def _strip_data(strip: Strip) -> dict[str, Any]:
    first = strip.calls[0].start_us
    return {
        "step": strip.step,
        "leftOut": strip.left_out,
        "calls": [
            (
                each.kind,
                _shown(each.name),
                _shown(each.type),
                _shown(each.place),
                _shown(each.stage),
                each.depth,
                each.start_us - first,
                each.duration_us,
                int(each.raised),
            )
            for each in strip.calls
        ],
    }


def _script_data(script: Script, page: RunPage) -> dict[str, Any]:
    marks: dict[int, list[tuple[str, int, str]]] = {}
    for summary in page.summaries:
        for finding in summary.findings:
            place = place_of(finding)
            if place is not None and place[0] == script.file:
                words = f"{page.rules[finding.code].title}: {finding.name}"
                marks.setdefault(place[1], []).append((_shown(words), 0, finding.severity))
    counted: dict[tuple[int, str], int] = {}
    for mark in script.marks:
        counted[mark.line, mark.what] = counted.get((mark.line, mark.what), 0) + mark.times
    for (line, what), count in counted.items():
        marks.setdefault(line, []).append((_shown(what), count, ""))
    lines = None if script.lines is None else [_shown(line) for line in script.lines]
    return {"file": _shown(script.file), "note": script.note, "lines": lines, "marks": sorted(marks.items())}
