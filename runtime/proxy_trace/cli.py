"""The `proxy-trace` command: options in, one call, an exit code out."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Annotated, Final, TypeVar, cast

import typer

from proxy_trace.commands.compare import COMPARE_HELP, compare
from proxy_trace.commands.explain import EXPLAIN_HELP, explain
from proxy_trace.commands.export import EXPORT_HELP, export
from proxy_trace.commands.flow import FLOW_HELP, flow
from proxy_trace.commands.history import HISTORY_HELP, HistoryCommand, history
from proxy_trace.commands.options import (
    Format,
    FormatOption,
    KindOption,
    ModuleOption,
    NameOption,
    RankOption,
    RunArgument,
    StageOption,
    StepOption,
    open_run,
    print_json,
    print_lines,
    print_note,
)
from proxy_trace.commands.order import ORDER_HELP, order
from proxy_trace.commands.ranks import RANKS_HELP, ranks
from proxy_trace.commands.report import REPORT_HELP, report
from proxy_trace.commands.runs import RUNS_HELP, runs
from proxy_trace.commands.summary import SUMMARY_HELP, summary
from proxy_trace.commands.watch import WATCH_HELP, watch
from proxy_wrapper import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from proxy_trace.reading.trace import Trace

T = TypeVar("T")

_WRONG_INPUT: Final = 2
_INTERRUPTED: Final = 130  # 128 + SIGINT, as shells count

_HELP = """
Read the trace that an instrumented script has written.

[bold]Examples[/bold]

  Does anything look wrong in the newest run, or in another one?
    [cyan]$ proxy-trace summary[/cyan]
    [cyan]$ proxy-trace summary other_dir/RUN_ID[/cyan]
  Which runs are there, and what are the findings in each?
    [cyan]$ proxy-trace runs[/cyan]
  What did a good run do that the newest one did not?
    [cyan]$ proxy-trace summary --against proxy_trace/GOOD_RUN_ID[/cyan]
  What does a finding mean, and what can I do about it?
    [cyan]$ proxy-trace explain never-updated[/cyan]
  Where was the first NaN, and on which line?
    [cyan]$ proxy-trace show --kind non_finite[/cyan]
  How did the parameters of a layer move?
    [cyan]$ proxy-trace show --name 'model.fc1.*'[/cyan]
  What happened to the tensor that a line creates, throughout the run?
    [cyan]$ proxy-trace history train.py:41[/cyan]
  In which order did the model run its modules and first use its parameters?
    [cyan]$ proxy-trace order[/cyan]
  Which branches did the model take, and where do two runs diverge?
    [cyan]$ proxy-trace flow --step 0[/cyan]
    [cyan]$ proxy-trace flow proxy_trace/OLD_RUN_ID proxy_trace[/cyan]
  Do the ranks of a distributed run agree?
    [cyan]$ proxy-trace ranks[/cyan]
  At which step does a run diverge from an older one, and in what?
    [cyan]$ proxy-trace compare proxy_trace/OLD_RUN_ID proxy_trace[/cyan]
  Which record differs first, and on which lines?
    [cyan]$ proxy-trace compare proxy_trace/OLD_RUN_ID proxy_trace --records[/cyan]
  The run as an HTML page, or live while it is in progress:
    [cyan]$ proxy-trace report[/cyan]
    [cyan]$ proxy-trace watch[/cyan]
  The whole run as a text log:
    [cyan]$ proxy-trace log | less[/cyan]

RUN is a run directory, one of its .jsonl files, or a logdir (meaning its newest run). The default is \
./proxy_trace, where scripts write.
"""

_EPILOG = """
[bold]Exit codes[/bold]

  0    done, whatever was found
  1    ranks, compare, flow: something differs; summary --fail-on: a finding
  2    wrong usage, an unreadable trace, or an unwritable output
  130  interrupted
  141  the reader of the output has gone, as with [cyan]| head[/cyan]
"""

_SHOW_HELP = """
Show the events of a run, one per line, with time, step, module and the line of the script.

An event must match all options, and at least one of the values of a repeated option. Globs match whole names, and * \
matches dots too.

[bold]Examples[/bold]

  [cyan]proxy-trace show --limit 50[/cyan]
  [cyan]proxy-trace show --kind gradient,update --name model.fc1.weight[/cyan]
  [cyan]proxy-trace show --step 100-102 --module 'model.encoder*'[/cyan]
  [cyan]proxy-trace show --kind update --format json | jq .statistics.norm[/cyan]

[bold]Kinds of events[/bold]

  calls       call_module, return_module, loss, graph_pattern
              backward, backward_end, active_dropout
  steps       optimizer, optimizer_step, optimizer_step_end, gradient, update
              scheduler_step, scaler_step, clip, freeze_without_effect,
              rate_without_effect, rate_reduced, schedule_restart
              loaded_rate, discarded_result, state_pattern, source_pattern
  values      parameter, buffer, input, load, loading, non_finite
              optimizer_state (at DEBUG)
  with flow   flow_step
  at DEBUG    call_function, call_method, read_value
              get_attr, set_attr, del_attr
  the run     run, run_end, module, configuration, limit, problem
  its places  location (only shown with --kind location)
"""

_LOG_HELP = """
Print a run as a text log, as written for a logdir that ends in .log.

Options select events as in show: an event must match all of them.

[bold]Examples[/bold]

  [cyan]proxy-trace log | less[/cyan]
  [cyan]proxy-trace log proxy_trace | grep -A2 _obj[/cyan]
  [cyan]proxy-trace log --stage validation --module 'model.encoder*'[/cyan]
"""

app = typer.Typer(
    name="proxy-trace",
    help=_HELP,
    epilog=_EPILOG,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"proxy-trace {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def proxy_trace(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001  Its callback does the work.
        bool,
        typer.Option(
            "--version",
            "-V",
            metavar="",
            help="Show the version and exit.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """Print the help if there is no command; the text of `--help` is `_HELP`."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command(help=SUMMARY_HELP)(summary)
app.command(help=RUNS_HELP)(runs)
app.command(help=EXPLAIN_HELP)(explain)


@app.command(help=_SHOW_HELP)
def show(
    run: RunArgument = None,
    kind: KindOption = None,
    name: NameOption = None,
    module: ModuleOption = None,
    step: StepOption = None,
    stage: StageOption = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-l", metavar="N", min=1, help="Stop after N events.", show_default=False),
    ] = None,
    output: FormatOption = Format.TEXT,
    rank: RankOption = None,
) -> None:
    """Show events; the text of `--help` is `_SHOW_HELP`."""
    from itertools import islice

    from proxy_trace.events.show import EventLines, resolve, select_events
    from proxy_trace.reading.selection import Selection, StepRange
    from proxy_trace.terminal.colour import Palette

    steps = StepRange.parse(step) if step is not None else None
    selection = Selection(kind or (), name or (), module or (), steps, stage or ())
    trace = open_run(run, rank)
    names = [file.names() for file in trace.files]
    chosen = islice(select_events(trace, names, selection), limit)
    sightings = _noting_none(chosen, trace, (*(name or ()), *(module or ())))
    if output is Format.JSON:
        print_json(map(resolve, sightings))
        return
    lines = EventLines(names, Palette.for_stream(sys.stdout))
    print_lines([lines.header()])
    print_lines(map(lines.line, sightings))


@app.command(help=_LOG_HELP)
def log(
    run: RunArgument = None,
    kind: KindOption = None,
    name: NameOption = None,
    module: ModuleOption = None,
    step: StepOption = None,
    stage: StageOption = None,
    rank: RankOption = None,
) -> None:
    """Print a run as text; the text of `--help` is `_LOG_HELP`."""
    from proxy_trace.errors import TextLogError
    from proxy_trace.events.log import log_lines, text_log_lines
    from proxy_trace.reading.selection import Selection, StepRange

    selection = None
    if kind or name or module or step is not None or stage:
        steps = StepRange.parse(step) if step is not None else None
        selection = Selection(kind or (), name or (), module or (), steps, stage or ())
    try:
        trace = open_run(run, rank)
    except TextLogError as error:
        if selection is not None or rank is not None:
            raise
        print_lines(text_log_lines(error.path))
        return
    lines = log_lines(trace, selection)
    print_lines(lines if selection is None else _noting_none(lines, trace, (*(name or ()), *(module or ()))))


app.command(help=HISTORY_HELP, cls=HistoryCommand)(history)
app.command(help=ORDER_HELP)(order)
app.command(help=FLOW_HELP)(flow)
app.command(help=RANKS_HELP)(ranks)
app.command(help=COMPARE_HELP)(compare)
app.command(help=REPORT_HELP)(report)
app.command(help=WATCH_HELP)(watch)
app.command(help=EXPORT_HELP)(export)


def _noting_none(chosen: Iterator[T], trace: Trace, globs: Sequence[str]) -> Iterator[T]:
    """`chosen` as it is; if there is nothing in it, standard error says so, and which names are near to `globs`."""
    is_empty = True
    for each in chosen:
        is_empty = False
        yield each
    if is_empty:
        from proxy_trace.commands.suggestions import nearest_to

        near = nearest_to(globs, [file.names() for file in trace.files]) if globs else ""
        print_note(f"no event in this trace matches all these options{near}")


@functools.cache
def _command() -> Callable[..., object]:
    """The command that typer builds from `app`, which takes longer than most commands do with a small trace."""
    return typer.main.get_command(app)


def run_command(arguments: list[str]) -> int:
    """Run the command with `arguments` and give back its exit code; a mistake of the user is told in one line."""
    from proxy_trace.errors import TraceError

    # UsageError is not among typer's own names, and whose it is (click's or typer's copy) depends on its version.
    usage_error = cast("type[Exception]", typer.BadParameter.__base__)
    try:
        code = _command()(args=arguments, prog_name="proxy-trace", standalone_mode=False)
    except TraceError as error:
        message = str(error)
    except usage_error as error:
        said = getattr(error, "format_message", error.__str__)()
        of = getattr(getattr(error, "ctx", None), "command_path", "proxy-trace")
        message = f"{said.removesuffix('.')}{'' if said.endswith('?') else '.'} Try '{of} --help'."
    except (KeyboardInterrupt, typer.Abort):
        return _say_interrupted()
    else:
        if code == _INTERRUPTED:  # Some versions of typer catch what Ctrl-C raises.
            return _say_interrupted()
        return code if isinstance(code, int) else 0
    from proxy_trace.terminal.colour import Palette, for_terminal

    error_word = Palette.for_stream(sys.stderr).paint("error:", "red")
    print(for_terminal(f"proxy-trace: {error_word} {message}"), file=sys.stderr)
    return _WRONG_INPUT


def _say_interrupted() -> int:
    print("proxy-trace: interrupted", file=sys.stderr)
    return _INTERRUPTED


def main() -> None:
    """Run the command with the arguments of this process; the entry point of the distribution."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(run_command(sys.argv[1:]))
