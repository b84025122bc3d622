"""The `instrument` command: options in, one call, an exit code out."""

from __future__ import annotations

import os
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from instrumentor import __version__

if TYPE_CHECKING:
    from instrumentor.command import Request
    from instrumentor.configuration import Section

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
  A whole tree: into one that runs as it stands, in place, or as a patch:
    [cyan]$ instrument zoo/ -o traced/[/cyan]
    [cyan]$ instrument zoo/ --in-place[/cyan]
    [cyan]$ instrument zoo/ --diff > instrument.patch[/cyan]
  Look first: what would change, why, and whether:
    [cyan]$ instrument mnist.py --diff[/cyan]
    [cyan]$ instrument mnist.py --explain[/cyan]
    [cyan]$ instrument --check *.py[/cyan]
    [cyan]$ instrument zoo/ --check --report review.html[/cyan]
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

[bold]In pyproject.toml[/bold]

  [cyan]\\[tool.instrumentor][/cyan]     the nearest one counts for each file; options win over it

[bold]Exit codes[/bold]

  0    done, or nothing to do
  1    --check found something that would change
  2    wrong usage, or a file could not be processed (the others were)
  130  interrupted
"""

_FILES = "Which files"
_OUTPUT = "Output"
_REVIEW = "Look first (nothing is written)"
_REPORTS = "Reports"
_TRACE = "What the script will trace"
_SPEED = "Speed, and more than one machine"
_MESSAGES = "Messages"


class LogLevelName(str, Enum):
    """The values of `--log-level`."""

    WARNING = "WARNING"
    INFO = "INFO"
    DEBUG = "DEBUG"


class ConfidenceName(str, Enum):
    """The values of `--min-confidence`."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class FormatName(str, Enum):
    """The values of `--format`."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


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
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH...",
            help="Files, directories, globs; [bold]-[/bold] is standard input.",
            show_default=False,
        ),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            "--include",
            metavar="GLOB",
            help="Take these files of a directory, as gitignore patterns. [dim]\\[default: *.py, *.ipynb][/dim]",
            rich_help_panel=_FILES,
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude",
            metavar="GLOB",
            help="Leave these out, instead of what is left out by default (.git, .venv, build, node_modules, ...).",
            rich_help_panel=_FILES,
        ),
    ] = None,
    extend_exclude: Annotated[
        list[str] | None,
        typer.Option("--extend-exclude", metavar="GLOB", help="Leave these out too.", rich_help_panel=_FILES),
    ] = None,
    force_exclude: Annotated[
        bool | None,
        typer.Option("--force-exclude", help="Leave out what is excluded even if it is named.", rich_help_panel=_FILES),
    ] = None,
    respect_gitignore: Annotated[
        bool | None,
        typer.Option(
            "--respect-gitignore/--no-respect-gitignore",
            show_default=False,
            help="Leave out what git ignores. [dim]\\[default: yes][/dim]",
            rich_help_panel=_FILES,
        ),
    ] = None,
    files_from: Annotated[
        str | None,
        typer.Option(
            "--files-from",
            metavar="FILE",
            help="Read more paths from this file ([bold]-[/bold]: standard input), one to a line, or divided by NULs.",
            rich_help_panel=_FILES,
        ),
    ] = None,
    show_files: Annotated[
        bool,
        typer.Option(
            "--show-files", help="List the files that would be looked at, and do nothing.", rich_help_panel=_FILES
        ),
    ] = False,
    config: Annotated[
        str | None,
        typer.Option(
            "--config", metavar="FILE", help="Read settings from this TOML file only.", rich_help_panel=_FILES
        ),
    ] = None,
    isolated: Annotated[
        bool,
        typer.Option("--isolated", help="Read no configuration file.", rich_help_panel=_FILES),
    ] = False,
    python_path: Annotated[
        list[str] | None,
        typer.Option(
            "--python-path",
            metavar="DIR",
            help="Where the scripts' packages are installed, a site-packages folder or an environment; may be"
            " repeated. [dim]\\[default: the active environment][/dim]",
            rich_help_panel=_FILES,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            help="Write here: a file; a directory (it exists or ends with /); or [bold]-[/bold] for standard"
            " output. A directory argument is mirrored there, so that it runs as it stands. Default:"
            " instrumented_<name> beside each script.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    entry: Annotated[
        bool,
        typer.Option(
            "--entry",
            help="Instrument the files of its project that the script runs, too, where they make models of their"
            " own. All go to a tree that runs as it stands: -o, or instrumented_<name>/ beside the script.",
            rich_help_panel=_FILES,
        ),
    ] = False,
    copy_all: Annotated[
        bool,
        typer.Option(
            "--copy-all",
            help="In a mirror, copy the files that are not Python too, instead of linking to them.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    changed_only: Annotated[
        bool,
        typer.Option(
            "--changed-only", help="In a mirror, write only the scripts that change.", rich_help_panel=_OUTPUT
        ),
    ] = False,
    in_place: Annotated[
        bool,
        typer.Option("--in-place", help="Replace the scripts themselves.", rich_help_panel=_OUTPUT),
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
            help="Give back the originals of instrumented scripts: in place where they were instrumented in"
            " place, else under their own name.",
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
        bool,
        typer.Option(
            "--diff",
            help="Show what would change, as a unified diff; of a directory one for `git apply`.",
            rich_help_panel=_REVIEW,
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit with 1 if something would change.", rich_help_panel=_REVIEW),
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Show every place where a model is made, what happens there, and why.",
            rich_help_panel=_REVIEW,
        ),
    ] = False,
    statistics: Annotated[
        bool,
        typer.Option("--statistics", help="Count these places by decision and reason.", rich_help_panel=_REVIEW),
    ] = False,
    report: Annotated[
        list[str] | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Write a report, too: .html (a page to review), .md (a comment), .sarif (code scanning) or"
            " .json; may be repeated.",
            rich_help_panel=_REPORTS,
        ),
    ] = None,
    format_: Annotated[
        FormatName,
        typer.Option(
            "--format",
            help="What standard output says of the run: messages, the JSON report, or annotations for GitHub Actions.",
            rich_help_panel=_REPORTS,
        ),
    ] = FormatName.TEXT,
    merge_reports: Annotated[
        bool,
        typer.Option(
            "--merge-reports",
            help="The PATHs are .json reports, of shards; write them as one, with --report.",
            rich_help_panel=_REPORTS,
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
    min_confidence: Annotated[
        ConfidenceName | None,
        typer.Option(
            "--min-confidence",
            help="How sure it must be that an object is a model. [dim]\\[default: likely][/dim]",
            rich_help_panel=_TRACE,
        ),
    ] = None,
    recurse: Annotated[
        bool | None,
        typer.Option(
            "--recurse/--no-recurse",
            show_default=False,
            help="Trace the submodules of a model too. [dim]\\[default: yes][/dim]",
            rich_help_panel=_TRACE,
        ),
    ] = None,
    logdir: Annotated[
        str | None,
        typer.Option(
            "--logdir",
            metavar="DIR",
            help="Where the script writes its trace; a name that ends in .log gets a text log. [dim]\\[default:"
            " proxy_trace][/dim]",
            rich_help_panel=_TRACE,
        ),
    ] = None,
    log_level: Annotated[
        LogLevelName | None,
        typer.Option(
            "--log-level",
            case_sensitive=False,
            help="How much: first NaNs only, every call and update, or every operation. [dim]\\[default: INFO][/dim]",
            rich_help_panel=_TRACE,
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            metavar="N",
            help="So many scripts at a time. [dim]\\[default: one for each processor][/dim]",
            rich_help_panel=_SPEED,
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            metavar="NAME",
            help="Where they are worked on: local processes, [bold]ray[/bold], or another that an installed"
            " package offers.",
            rich_help_panel=_SPEED,
        ),
    ] = "local",
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard",
            metavar="I/N",
            help="Only part I of N, by a hash of the path: for arrays of jobs.",
            rich_help_panel=_SPEED,
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on where an interrupted run with the same --report stopped.", rich_help_panel=_SPEED
        ),
    ] = False,
    cache: Annotated[
        bool,
        typer.Option(
            "--cache/--no-cache",
            help="Keep results, and do not look again at files that are as they were.",
            rich_help_panel=_SPEED,
        ),
    ] = True,
    cache_dir: Annotated[
        str | None,
        typer.Option(
            "--cache-dir",
            metavar="DIR",
            help="Where they are kept. [dim]\\[default: the user's cache directory][/dim]",
            rich_help_panel=_SPEED,
        ),
    ] = None,
    clear_cache: Annotated[
        bool,
        typer.Option("--clear-cache", help="Forget them first.", rich_help_panel=_SPEED),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Say nothing but errors.", rich_help_panel=_MESSAGES),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Say every decision too.", rich_help_panel=_MESSAGES),
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

    overrides = _make_overrides(
        logdir=logdir,
        log_level=log_level.value if log_level else None,
        recurse=recurse,
        min_confidence=min_confidence.value if min_confidence else None,
        select=select,
        skip=skip,
        include=include,
        exclude=exclude,
        extend_exclude=extend_exclude,
        respect_gitignore=respect_gitignore,
        force_exclude=force_exclude,
    )
    arguments = (*(paths or ()), *(_read_paths(files_from) if files_from is not None else ()))
    if not arguments and not (clear_cache or files_from is not None):
        raise typer.BadParameter("missing; name files or directories, . for the current one", param_hint="PATH")
    request = Request(
        arguments=arguments,
        overrides=overrides,
        config=config,
        isolated=isolated,
        output=output,
        rest="copy" if copy_all else "none" if changed_only else "link",
        stdin_name=stdin_filename,
        revert=revert,
        entry=entry,
        in_place=in_place,
        force=force,
        diff=diff,
        check=check,
        explain=explain,
        statistics=statistics,
        show_files=show_files,
        reports=tuple(report or ()),
        format=format_.value,
        merge_reports=merge_reports,
        resume=resume,
        shard=_parse_shard(shard) if shard is not None else None,
        jobs=jobs,
        engine=engine,
        python_path=tuple(python_path or ()),
        cache=cache,
        cache_dir=cache_dir,
        clear_cache=clear_cache,
        quiet=quiet,
        verbose=verbose,
    )
    _refuse_nonsense(request)
    if copy_all and changed_only:
        raise typer.BadParameter("cannot be combined with --changed-only", param_hint="--copy-all")
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


def _make_overrides(**stated: object) -> Section:
    """The settings that were given as options."""
    from instrumentor.configuration import Section

    held = {name: tuple(value) if isinstance(value, list) else value for name, value in stated.items()}
    return Section(**{name: value for name, value in held.items() if value is not None})  # type: ignore[arg-type]


def _read_paths(source: str) -> list[str]:
    """Read the paths that a file lists, one to a line, or divided by NULs as `find -print0` does.

    Raises:
        typer.BadParameter: it cannot be read.
    """
    try:
        listed = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{source} cannot be read ({error.strerror})", param_hint="--files-from") from None
    separator = b"\0" if b"\0" in listed else b"\n"
    return [os.fsdecode(each.rstrip(b"\r")) for each in listed.split(separator) if each.strip()]


def _parse_shard(text: str) -> tuple[int, int]:
    """Read `I/N`.

    Raises:
        typer.BadParameter: it is something else.
    """
    index, _, count = text.partition("/")
    if index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count):
        return int(index), int(count)
    raise typer.BadParameter(f"{text!r} is no part of a whole; write 1/8, 2/8, ... 8/8", param_hint="--shard")


def _refuse_nonsense(request: Request) -> None:
    """Check what no single option can check.

    Raises:
        typer.BadParameter: options that contradict one another, or a value that means nothing.
    """
    from instrumentor.files import STANDARD_STREAM, is_directory_output
    from instrumentor.report.kinds import KINDS

    arguments = request.arguments
    has_stdin = STANDARD_STREAM in arguments
    is_several = len(set(arguments)) > 1
    output = request.output
    has_tree = any(Path(each).is_dir() for each in arguments if each != STANDARD_STREAM)
    strange = [each for each in request.reports if Path(each).suffix.lower() not in KINDS]
    only_looks = request.explain or request.statistics
    for is_wrong, option, message in (
        (request.in_place and output is not None, "--in-place", "cannot be combined with -o; leave one of them out"),
        (request.in_place and has_stdin, "--in-place", "needs files; standard input has no place to write back to"),
        (request.explain and request.diff, "--explain", "cannot be combined with --diff; ask for one after the other"),
        (only_looks and request.revert, "--explain", "cannot be combined with --revert; leave one of them out"),
        (
            request.entry and (has_stdin or has_tree or len(arguments) != 1),
            "--entry",
            "needs one script, the one that Python is to run",
        ),
        (
            request.entry and request.revert,
            "--entry",
            "cannot be combined with --revert; name the directory that holds the instrumented files instead",
        ),
        (
            request.entry and output is not None and Path(output).is_file(),
            "--entry",
            "writes a tree of files; give a directory with -o",
        ),
        (request.quiet and request.verbose, "--quiet", "cannot be combined with --verbose; leave one of them out"),
        (request.overrides.logdir == "", "--logdir", "is empty; name a directory such as proxy_trace"),
        (output == "", "--output", "is empty; name a file, a directory, or - for standard output"),
        (
            request.stdin_name is not None and not has_stdin,
            "--stdin-filename",
            "names standard input, which is read only where a script is given as -",
        ),
        (
            is_several and output is not None and not has_tree and not is_directory_output(output),
            "--output",
            f"is one file for several scripts; give a directory, {output or ''}/ for a new one",
        ),
        (
            has_tree and output == STANDARD_STREAM,
            "--output",
            "cannot be standard output for a directory; name a directory, or ask for --diff",
        ),
        (
            bool(strange),
            "--report",
            f"{', '.join(strange)} is of no kind that there is; name it *{', *'.join(KINDS)}",
        ),
        (
            request.merge_reports and not request.reports,
            "--merge-reports",
            "needs --report FILE for what the reports become",
        ),
        (
            request.resume and not request.reports,
            "--resume",
            "needs --report FILE: beside it lies the list of what is done",
        ),
        (
            request.format != "text" and (request.diff or request.explain or output == STANDARD_STREAM or has_stdin),
            "--format",
            "needs standard output for itself; leave out --diff, --explain, - and -o -, or use --report",
        ),
        (request.config is not None and request.isolated, "--isolated", "cannot be combined with --config"),
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
