"""The `instrument` command: options in, one call, an exit code out."""

# No `from __future__ import annotations`: the annotations are evaluated to find the options in the groups.
import os
import sys

import typer

from instrumentor.one_line_errors import OneLineErrors
from instrumentor.options import (
    ClearableCacheOptions,
    ConfigurationOptions,
    FileOptions,
    MessageOptions,
    OutputOptions,
    ReportOptions,
    ReviewOptions,
    RewritingOptions,
    SpeedOptions,
    with_options,
)

_INTERRUPTED = 130  # 128 + SIGINT, as shells count
_READER_GONE = 141  # 128 + SIGPIPE

_HELP = """
Trace the models of PyTorch training scripts.

The instrumented script trains exactly as before and writes a trace. It gains one import, one line for each model \
and a closing comment; everything else is preserved to the byte.

[bold]Examples[/bold]

  Run a script with its models traced, without writing a copy of it:
    [cyan]$ instrument run mnist.py --epochs 1[/cyan]
  Write instrumented_mnist.py beside the script:
    [cyan]$ instrument mnist.py[/cyan]
  Write it somewhere else; write several into a directory:
    [cyan]$ instrument mnist.py -o /tmp/traced/run.py[/cyan]
    [cyan]$ instrument train.py eval.py -o traced/[/cyan]
  A whole tree: as a copy that is ready to run, in place, or as a patch:
    [cyan]$ instrument zoo/ -o traced/[/cyan]
    [cyan]$ instrument zoo/ --in-place[/cyan]
    [cyan]$ instrument zoo/ --diff > instrument.patch[/cyan]
  Preview what would change, and why:
    [cyan]$ instrument mnist.py --diff[/cyan]
    [cyan]$ instrument mnist.py --explain[/cyan]
    [cyan]$ instrument zoo/ --check --report review.html[/cyan]
  Only set the exit code, to 1 if anything would change:
    [cyan]$ instrument --check *.py[/cyan]
  Exclude some models:
    [cyan]$ instrument gan.py --skip 'ema*'[/cyan]
  As a filter:
    [cyan]$ instrument - < mnist.py | python -[/cyan]
  Restore the original, byte for byte:
    [cyan]$ instrument --revert instrumented_mnist.py[/cyan]
"""

_EPILOG = """
[bold]In a script[/bold]

  [cyan]# instrument: skip[/cyan]       on a line: no proxy for what that line creates
  [cyan]# instrument: skip-file[/cyan]  on any line: skip the whole file

[bold]In pyproject.toml[/bold]

  [cyan]\\[tool.instrumentor][/cyan]     settings from the nearest file; options override them

[bold]Exit codes[/bold]

  0    done, or nothing to do
  1    --check found something that would change
  2    wrong usage, or a file could not be processed (the others were)
  130  interrupted
  141  the reader of the output has gone, as with [cyan]| head[/cyan]
"""


app = typer.Typer(
    name="instrument",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command(help=_HELP, epilog=_EPILOG, no_args_is_help=True, cls=OneLineErrors)
@with_options
def instrument(
    files: FileOptions,
    configuration: ConfigurationOptions,
    output: OutputOptions,
    review: ReviewOptions,
    reports: ReportOptions,
    tracing: RewritingOptions,
    speed: SpeedOptions,
    cache: ClearableCacheOptions,
    messages: MessageOptions,
) -> None:
    """Instrument scripts; the text of `--help` is `_HELP`."""
    from instrumentor.command import execute
    from instrumentor.request import Request
    from instrumentor.usage import find_arguments, make_overrides, parse_shard, refuse_nonsense

    if output.copy_all and output.changed_only:
        raise typer.BadParameter("cannot be combined with --changed-only", param_hint="--copy-all")
    arguments = find_arguments(files.paths or [], files.files_from)
    if not arguments and not (cache.clear_cache or files.files_from is not None):
        raise typer.BadParameter("missing; name files or directories, . for the current one", param_hint="PATH")
    stated = {
        name: value
        for group in (files, configuration, output, review, reports, speed, cache, messages)
        for name, value in vars(group).items()
        if name in Request.__dataclass_fields__
    }
    stated |= {
        "python_path": tuple(configuration.python_path or ()),
        "shard": parse_shard(speed.shard) if speed.shard is not None else None,
    }
    request = Request(
        arguments=arguments,
        overrides=make_overrides(tracing, files),
        rest="copy" if output.copy_all else "none" if output.changed_only else "link",
        stdin_name=output.stdin_filename,
        reports=tuple(reports.report or ()),
        format=reports.format_.value,
        **stated,
    )
    refuse_nonsense(request)
    try:
        code = execute(request)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        code = _INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes standard output once more at its end; that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _READER_GONE
    raise typer.Exit(code)


def main() -> None:
    """Run the command with the arguments of this process; the entry point of the distribution."""
    try:
        if sys.argv[1:2] == ["run"]:
            from instrumentor.running.command_line import run_app

            run_app(sys.argv[2:], prog_name="instrument run")
        app(prog_name="instrument")
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
