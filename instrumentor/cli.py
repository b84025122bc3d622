"""The `instrument` command: options in, one call, an exit code out."""

# Annotations are evaluated where they stand: typer would compile each of them again from its text.
import os
import sys
from enum import Enum
from typing import Annotated

import typer

from instrumentor import __version__
from instrumentor.options import (
    EXCLUDED,
    FILES,
    MESSAGES,
    OUTPUT,
    REPORTS,
    REVIEW,
    SPEED,
    CacheDirOption,
    CacheOption,
    ConfigOption,
    EveryOption,
    FactoriesOption,
    FirstOption,
    FlowOption,
    IsolatedOption,
    LogdirOption,
    LogLevelOption,
    MaxSizeOption,
    MinConfidenceOption,
    PythonPathOption,
    RanksOption,
    RecurseOption,
    SelectOption,
    SkipOption,
    StatisticsOfOption,
    option,
)

_INTERRUPTED = 130  # 128 + SIGINT, as shells count
_READER_GONE = 141  # 128 + SIGPIPE

_HELP = """
Put the models of PyTorch training scripts under a tracing proxy.

The instrumented script trains exactly as before and leaves a trace. It gains one import, one line for each model \
and a closing comment; everything else stays as it is, to the byte.

[bold]Examples[/bold]

  Write instrumented_mnist.py beside the script:
    [cyan]$ instrument mnist.py[/cyan]
  Write it somewhere else; write several into a directory:
    [cyan]$ instrument mnist.py -o /tmp/traced/run.py[/cyan]
    [cyan]$ instrument train.py eval.py -o traced/[/cyan]
  A whole tree: mirrored so that it runs as it stands, in place, or as a patch:
    [cyan]$ instrument zoo/ -o traced/[/cyan]
    [cyan]$ instrument zoo/ --in-place[/cyan]
    [cyan]$ instrument zoo/ --diff > instrument.patch[/cyan]
  Look first: what would change, and why:
    [cyan]$ instrument mnist.py --diff[/cyan]
    [cyan]$ instrument mnist.py --explain[/cyan]
    [cyan]$ instrument zoo/ --check --report review.html[/cyan]
  Only tell by the exit code whether anything would change:
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
  [cyan]# instrument: skip-file[/cyan]  on any line: leave the whole file alone

[bold]In pyproject.toml[/bold]

  [cyan]\\[tool.instrumentor][/cyan]     settings, from the nearest file; options win

[bold]Exit codes[/bold]

  0    done, or nothing to do
  1    --check found something that would change
  2    wrong usage, or a file could not be processed (the others were)
  130  interrupted
  141  whoever read the output has gone, as with [cyan]| head[/cyan]
"""


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
        option(
            "--include",
            FILES,
            "Which files of a directory to take (gitignore patterns). [dim]\\[default: *.py, *.ipynb][/dim]",
            metavar="GLOB",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        option(
            "--exclude",
            FILES,
            "Which files to leave out, in place of the default ones (.git, .venv, build, node_modules, ...).",
            metavar="GLOB",
        ),
    ] = None,
    extend_exclude: Annotated[
        list[str] | None,
        option("--extend-exclude", FILES, "More files to leave out, on top of the default ones.", metavar="GLOB"),
    ] = None,
    force_exclude: Annotated[
        bool | None,
        option("--force-exclude", EXCLUDED, "Leave out excluded files even where they are named."),
    ] = None,
    respect_gitignore: Annotated[
        bool | None,
        option(
            "--respect-gitignore/--no-respect-gitignore",
            EXCLUDED,
            "Leave out what git ignores. [dim]\\[default: yes][/dim]",
        ),
    ] = None,
    files_from: Annotated[
        str | None,
        option(
            "--files-from",
            FILES,
            "Read more paths from this file ([bold]-[/bold]: standard input), one per line or separated by NULs.",
            metavar="FILE",
        ),
    ] = None,
    show_files: Annotated[
        bool,
        option("--show-files", FILES, "List the files that would be looked at, and do nothing else."),
    ] = False,
    config: ConfigOption = None,
    isolated: IsolatedOption = False,
    python_path: PythonPathOption = None,
    output: Annotated[
        str | None,
        option(
            "--output -o",
            OUTPUT,
            "Where to write: a file, a directory (one that exists, or a name that ends in /), or [bold]-[/bold] for"
            " standard output. A directory given as PATH is mirrored there, so that it runs as it stands. Default:"
            " instrumented_<name> beside each script.",
            metavar="PATH",
        ),
    ] = None,
    entry: Annotated[
        bool,
        option(
            "--entry",
            FILES,
            "Also instrument those files of its project that the script imports and that make models. All go to"
            " a tree that runs as it stands: -o, or instrumented_<name>/ beside the script.",
        ),
    ] = False,
    copy_all: Annotated[
        bool,
        option("--copy-all", OUTPUT, "In a mirror, copy files that are not Python, instead of linking to them."),
    ] = False,
    changed_only: Annotated[
        bool,
        option("--changed-only", OUTPUT, "In a mirror, write only scripts that change."),
    ] = False,
    in_place: Annotated[
        bool,
        option("--in-place", OUTPUT, "Replace the scripts themselves."),
    ] = False,
    force: Annotated[
        bool,
        option("--force -f", OUTPUT, "Overwrite files that instrument did not write, or that were edited since."),
    ] = False,
    revert: Annotated[
        bool,
        option(
            "--revert",
            OUTPUT,
            "Restore the originals of instrumented scripts: in place if they were instrumented in place, else"
            " under their own name.",
        ),
    ] = False,
    stdin_filename: Annotated[
        str | None,
        option(
            "--stdin-filename",
            OUTPUT,
            "A name for standard input; imports are looked up in its directory.",
            metavar="PATH",
        ),
    ] = None,
    diff: Annotated[
        bool,
        option(
            "--diff", REVIEW, "Show what would change as a unified diff; for a directory, one that `git apply` takes."
        ),
    ] = False,
    check: Annotated[
        bool,
        option("--check", REVIEW, "Exit with 1 if something would change."),
    ] = False,
    explain: Annotated[
        bool,
        option("--explain", REVIEW, "Show every place where a model is made, what becomes of it, and why."),
    ] = False,
    statistics: Annotated[
        bool,
        option("--statistics", REVIEW, "Count those places by decision and reason."),
    ] = False,
    report: Annotated[
        list[str] | None,
        option(
            "--report",
            REPORTS,
            "Write a report as well: .html (a page for review), .md (a pull-request comment), .sarif (code"
            " scanning) or .json. May be repeated.",
            metavar="FILE",
        ),
    ] = None,
    format_: Annotated[
        FormatName,
        option(
            "--format",
            REPORTS,
            "What to print: messages, the JSON report, or annotations for GitHub Actions.",
            metavar="text|json|github",
            show_default=True,
        ),
    ] = FormatName.TEXT,
    merge_reports: Annotated[
        bool,
        option(
            "--merge-reports",
            REPORTS,
            "Join .json reports of shards, given as PATH, into the one that --report names.",
        ),
    ] = False,
    select: SelectOption = None,
    skip: SkipOption = None,
    min_confidence: MinConfidenceOption = None,
    factories: FactoriesOption = None,
    recurse: RecurseOption = None,
    logdir: LogdirOption = None,
    log_level: LogLevelOption = None,
    statistics_of: StatisticsOfOption = None,
    first: FirstOption = None,
    every: EveryOption = None,
    ranks: RanksOption = None,
    max_size: MaxSizeOption = None,
    flow: FlowOption = None,
    jobs: Annotated[
        int | None,
        option(
            "--jobs -j",
            SPEED,
            "How many scripts to work on at a time. [dim]\\[default: one for each processor][/dim]",
            min=1,
            metavar="N",
        ),
    ] = None,
    engine: Annotated[
        str,
        option(
            "--engine",
            SPEED,
            "Where to work on them: in [bold]local[/bold] processes, on [bold]ray[/bold], or on another engine that"
            " an installed package offers.",
            metavar="NAME",
            show_default=True,
        ),
    ] = "local",
    shard: Annotated[
        str | None,
        option("--shard", SPEED, "Take only part I of N, by a hash of each path: for job arrays.", metavar="I/N"),
    ] = None,
    resume: Annotated[
        bool,
        option("--resume", SPEED, "Go on where an interrupted run with the same --report stopped."),
    ] = False,
    cache: CacheOption = True,
    cache_dir: CacheDirOption = None,
    clear_cache: Annotated[
        bool,
        option("--clear-cache", SPEED, "Forget all kept results first."),
    ] = False,
    quiet: Annotated[
        bool,
        option("--quiet -q", MESSAGES, "Print errors only."),
    ] = False,
    verbose: Annotated[
        bool,
        option("--verbose -v", MESSAGES, "Print every decision as well."),
    ] = False,
    version: Annotated[  # noqa: ARG001 - its callback acts
        bool,
        option("--version -V", MESSAGES, "Show the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Instrument scripts; the text of `--help` is `_HELP`."""
    from instrumentor.command import execute
    from instrumentor.request import Request
    from instrumentor.usage import find_arguments, make_overrides, parse_shard, refuse_nonsense

    if copy_all and changed_only:
        raise typer.BadParameter("cannot be combined with --changed-only", param_hint="--copy-all")
    overrides = make_overrides(
        logdir=logdir,
        log_level=log_level.value if log_level else None,
        statistics_of=statistics_of.value if statistics_of else None,
        first=first,
        every=every,
        ranks=ranks,
        max_size=max_size,
        flow=flow,
        recurse=recurse,
        min_confidence=min_confidence.value if min_confidence else None,
        factories=factories.value if factories else None,
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
        if sys.argv[1:2] == ["run"]:
            from instrumentor.running.command_line import run_app

            run_app(sys.argv[2:], prog_name="instrument run")
        app(prog_name="instrument")
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
