"""The `instrument` command: options in, one call, an exit code out."""

from __future__ import annotations

import os
import sys
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from instrumentor import __version__
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from instrumentor.command import Request

_INTERRUPTED = 130  # 128 + SIGINT, as shells count
_READER_GONE = 141  # 128 + SIGPIPE

_HELP = """
Put the models of PyTorch training scripts under a tracing proxy.

The instrumented script trains exactly as before, and leaves a trace. Each model costs it one added line, \
the file one import and a closing comment; everything else stays as it is, to the byte.

[bold]Examples[/bold]

  Write instrumented_mnist.py beside the script:
    [cyan]$ instrument mnist.py[/cyan]
  Write it somewhere else; write several into a directory:
    [cyan]$ instrument mnist.py -o /tmp/traced/run.py[/cyan]
    [cyan]$ instrument train.py eval.py -o traced/[/cyan]
  Look first: what would change, why, and whether:
    [cyan]$ instrument mnist.py --diff[/cyan]
    [cyan]$ instrument mnist.py --explain[/cyan]
    [cyan]$ instrument --check *.py[/cyan]
  Leave some models alone:
    [cyan]$ instrument gan.py --skip 'ema*'[/cyan]
  As a filter:
    [cyan]$ instrument - < mnist.py | python -[/cyan]
  Get the original back, byte for byte:
    [cyan]$ instrument --revert instrumented_mnist.py[/cyan]
"""

_EPILOG = """
[bold]In a script[/bold]

  [cyan]# instrument: skip[/cyan]       on a line: no proxy for what that line makes
  [cyan]# instrument: skip-file[/cyan]  on a line of its own: leave the whole file alone

[bold]Exit codes[/bold]

  0    done, or nothing to do
  1    --check found something that would change
  2    wrong usage, or a file could not be processed (the others were)
  130  interrupted
"""

_OUTPUT = "Output"
_REVIEW = "Look first (nothing is written)"
_TRACE = "What the script will trace"
_MESSAGES = "Messages"


class LogLevelName(str, Enum):
    """The values of `--log-level`."""

    WARNING = "WARNING"
    INFO = "INFO"
    DEBUG = "DEBUG"


app = typer.Typer(
    name="instrument",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"instrument {__version__}")
        raise typer.Exit


@app.command(help=_HELP, epilog=_EPILOG, no_args_is_help=True)
def instrument(
    scripts: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="The scripts; [bold]-[/bold] is standard input.", show_default=False),
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Write here: a file, a directory (it exists or ends with /; needed for several scripts), or"
            " [bold]-[/bold] for standard output. Default: instrumented_<name> beside the script.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Replace the scripts themselves.", rich_help_panel=_OUTPUT)
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            "-f",
            help="Overwrite a file that instrument did not write, or that was edited since.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    revert: Annotated[
        bool,
        typer.Option(
            "--revert",
            help="Give back the originals of instrumented scripts: in place where they were instrumented in place,"
            " else under their own name.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    stdin_filename: Annotated[
        str | None,
        typer.Option(
            "--stdin-filename",
            metavar="PATH",
            help="The name that standard input goes by; its imports are looked up beside that.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show what would change, as a unified diff.", rich_help_panel=_REVIEW)
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if something would change.", rich_help_panel=_REVIEW)
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Show every place where a model is made, what happens there, and why.",
            rich_help_panel=_REVIEW,
        ),
    ] = False,
    select: Annotated[
        list[str] | None,
        typer.Option(
            "--select",
            metavar="NAME-GLOB",
            help="Wrap only what is bound to such a name ('model', 'self.net*'); may be repeated.",
            rich_help_panel=_TRACE,
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            "--skip",
            metavar="NAME-GLOB",
            help="Leave what is bound to such a name alone, selected or not; may be repeated.",
            rich_help_panel=_TRACE,
        ),
    ] = None,
    recurse: Annotated[
        bool,
        typer.Option("--recurse/--no-recurse", help="Trace the submodules of a model too.", rich_help_panel=_TRACE),
    ] = Settings.recurse,
    logdir: Annotated[
        str,
        typer.Option(
            "--logdir",
            metavar="DIR",
            help="Where the script writes its trace; a name that ends in .log gets a text log.",
            rich_help_panel=_TRACE,
        ),
    ] = Settings.logdir,
    log_level: Annotated[
        LogLevelName,
        typer.Option(
            "--log-level",
            case_sensitive=False,
            help="How much: first NaNs only, every call and update, or every operation.",
            rich_help_panel=_TRACE,
        ),
    ] = LogLevelName[Settings.log_level],
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Say nothing but errors.", rich_help_panel=_MESSAGES)
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say every decision too.", rich_help_panel=_MESSAGES)
    ] = False,
    version: Annotated[  # noqa: ARG001 - its callback acts
        bool,
        typer.Option(
            "--version",
            "-V",
            help="Show the version and exit.",
            callback=_print_version,
            is_eager=True,
            rich_help_panel=_MESSAGES,
        ),
    ] = False,
) -> None:
    """Instrument scripts; the text of `--help` is `_HELP`."""
    from instrumentor.command import Request, execute

    request = Request(
        arguments=tuple(scripts),
        settings=Settings(
            logdir=logdir,
            log_level=log_level.value,
            recurse=recurse,
            select=tuple(select or ()),
            skip=tuple(skip or ()),
        ),
        output=output,
        stdin_name=stdin_filename,
        revert=revert,
        in_place=in_place,
        force=force,
        diff=diff,
        check=check,
        explain=explain,
        quiet=quiet,
        verbose=verbose,
    )
    _refuse_nonsense(request)
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


def _refuse_nonsense(request: Request) -> None:
    """Check what no single option can check.

    Raises:
        typer.BadParameter: options that contradict one another, or a value that means nothing.
    """
    from instrumentor.files import STANDARD_STREAM, is_directory_output

    has_stdin = STANDARD_STREAM in request.arguments
    is_several = len(set(request.arguments)) > 1
    output = request.output
    for is_wrong, option, message in (
        (request.in_place and output is not None, "--in-place", "cannot be combined with -o; leave one of them out"),
        (request.in_place and has_stdin, "--in-place", "needs files; standard input has no place to write back to"),
        (request.explain and request.diff, "--explain", "cannot be combined with --diff; ask for one after the other"),
        (request.explain and request.revert, "--explain", "cannot be combined with --revert; leave one of them out"),
        (request.quiet and request.verbose, "--quiet", "cannot be combined with --verbose; leave one of them out"),
        (not request.settings.logdir, "--logdir", "is empty; name a directory such as proxy_trace"),
        (output == "", "--output", "is empty; name a file, a directory, or - for standard output"),
        (
            request.stdin_name is not None and not has_stdin,
            "--stdin-filename",
            "names standard input, which is read only where a script is given as -",
        ),
        (
            is_several and output is not None and not is_directory_output(output),
            "--output",
            f"is one file for several scripts; give a directory, {output or ''}/ for a new one",
        ),
    ):
        if is_wrong:
            raise typer.BadParameter(message, param_hint=option)


def main() -> None:
    """Run the command with the arguments of this process; the entry point of the distribution."""
    try:
        app(prog_name="instrument")
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
