"""The `instrument` command: options in, one call, an exit code out."""

# Annotations are evaluated where they stand: typer would compile each of them again from its text.
import os
import sys
from enum import Enum
from typing import Annotated

import typer

from instrumentor import __version__

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
  141  whoever read the output has gone, as with [cyan]| head[/cyan]
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
            metavar="PATH",
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
    from instrumentor.usage import find_arguments, make_overrides, parse_shard, refuse_nonsense

    if copy_all and changed_only:
        raise typer.BadParameter("cannot be combined with --changed-only", param_hint="--copy-all")
    overrides = make_overrides(
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
    arguments = find_arguments(paths or [], files_from)
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
        shard=parse_shard(shard) if shard is not None else None,
        jobs=jobs,
        engine=engine,
        python_path=tuple(python_path or ()),
        cache=cache,
        cache_dir=cache_dir,
        clear_cache=clear_cache,
        quiet=quiet,
        verbose=verbose,
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
        app(prog_name="instrument")
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
