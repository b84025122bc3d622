"""The options of `instrument` and `instrument run`: each defined once, in groups that both commands use."""

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Annotated, Any

import typer

from instrumentor import __version__
from instrumentor.settings import RANKS_PATTERN, SIZE_PATTERN

FILES = "Files"
EXCLUDED = "Excluded files"
OUTPUT = "Output"
REVIEW = "Preview (writes no script)"
REPORTS = "Reports"
TRACE = "Tracing"
SPEED = "Speed and clusters"
MESSAGES = "Messages"


class FormatName(str, Enum):
    """The values of `--format`."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"


class LogLevelName(str, Enum):
    """The values of `--log-level`."""

    WARNING = "WARNING"
    INFO = "INFO"
    DEBUG = "DEBUG"


class StatisticsName(str, Enum):
    """The values of `--statistics-of`."""

    STATE = "state"
    OUTPUTS = "outputs"
    ALL = "all"


class FactoryRuleName(str, Enum):
    """The values of `--factories`."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class ConfidenceName(str, Enum):
    """The values of `--min-confidence`."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


def option(names: str, panel: str, text: str, *, metavar: str = "", **more: Any) -> Any:
    """An option in a panel of the help; without a `metavar` it is a flag, for which the help shows no type.

    Args:
        names: its spellings, separated by blanks.
        panel: the heading that it appears under.
        text: its help text.
        metavar: the placeholder for its value.
        more: further arguments of `typer.Option`.
    """
    # Some versions of typer show "None" for an option without a default.
    shown = {"show_default": False, **more}
    return typer.Option(*names.split(), help=text, metavar=metavar, rich_help_panel=panel, **shown)


def _check_ranks(value: str | None) -> str | None:
    if value is not None and not re.fullmatch(RANKS_PATTERN, value):
        raise typer.BadParameter(f"{value!r} is not a list of ranks; write numbers and ranges, such as 0,8-15")
    return value


def _check_size(value: str | None) -> str | None:
    if value is not None and not re.fullmatch(SIZE_PATTERN, value):
        raise typer.BadParameter(f"{value!r} is not a size; write a number and K, M, G or T, such as 500M or 2G")
    return value


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"instrument {__version__}")
        raise typer.Exit


@dataclass(frozen=True)
class FileOptions:
    """Which files are processed."""

    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH",
            help="Files, directories, globs; [bold]-[/bold] is standard input.",
            show_default=False,
        ),
    ] = None
    include: Annotated[
        list[str] | None,
        option(
            "--include",
            FILES,
            "Which files in a directory to take (.gitignore patterns). [dim]\\[default: *.py, *.ipynb][/dim]",
            metavar="GLOB",
        ),
    ] = None
    exclude: Annotated[
        list[str] | None,
        option(
            "--exclude",
            FILES,
            "Which files to leave out, instead of the default ones (.git, .venv, build, node_modules, ...).",
            metavar="GLOB",
        ),
    ] = None
    extend_exclude: Annotated[
        list[str] | None,
        option("--extend-exclude", FILES, "Files to leave out in addition to the default ones.", metavar="GLOB"),
    ] = None
    force_exclude: Annotated[
        bool | None,
        option("--force-exclude", EXCLUDED, "Leave out excluded files even if they are named."),
    ] = None
    respect_gitignore: Annotated[
        bool | None,
        option(
            "--respect-gitignore/--no-respect-gitignore",
            EXCLUDED,
            "Leave out files that git ignores. [dim]\\[default: yes][/dim]",
        ),
    ] = None
    files_from: Annotated[
        str | None,
        option(
            "--files-from",
            FILES,
            "Read more paths from this file ([bold]-[/bold]: standard input), one per line or separated by NULs.",
            metavar="FILE",
        ),
    ] = None
    show_files: Annotated[
        bool,
        option("--show-files", FILES, "List the files that would be processed, and do nothing else."),
    ] = False


@dataclass(frozen=True)
class ConfigurationOptions:
    """Where settings and packages are found."""

    config: Annotated[
        str | None,
        option("--config", FILES, "Read settings only from this TOML file.", metavar="FILE"),
    ] = None
    isolated: Annotated[bool, option("--isolated", FILES, "Read no configuration file.")] = False
    python_path: Annotated[
        list[str] | None,
        option(
            "--python-path",
            FILES,
            "Where the packages that the scripts import are installed: a site-packages directory or an environment. "
            "May be repeated. [dim]\\[default: the active environment][/dim]",
            metavar="DIR",
        ),
    ] = None


@dataclass(frozen=True)
class OutputOptions:
    """What is written, and where."""

    entry: Annotated[
        bool,
        option(
            "--entry",
            FILES,
            "Also instrument the files of its project that the script imports and that create models. All are written "
            "to a tree that is ready to run: -o, or instrumented_<name>/ beside the script.",
        ),
    ] = False
    output: Annotated[
        str | None,
        option(
            "--output -o",
            OUTPUT,
            "Where to write: a file, a directory (one that exists, or a name that ends in /), or [bold]-[/bold] for"
            " standard output. A directory given as PATH is mirrored there, ready to run. Default:"
            " instrumented_<name> beside each script.",
            metavar="PATH",
        ),
    ] = None
    copy_all: Annotated[
        bool,
        option("--copy-all", OUTPUT, "In a mirror, copy files that are not Python instead of linking to them."),
    ] = False
    changed_only: Annotated[
        bool,
        option("--changed-only", OUTPUT, "In a mirror, write only scripts that change."),
    ] = False
    in_place: Annotated[
        bool,
        option("--in-place", OUTPUT, "Replace the scripts themselves."),
    ] = False
    force: Annotated[
        bool,
        option("--force -f", OUTPUT, "Overwrite files that instrument did not write, or that were edited since."),
    ] = False
    revert: Annotated[
        bool,
        option(
            "--revert",
            OUTPUT,
            "Restore the originals of instrumented scripts: in place if they were instrumented in place, otherwise "
            "under their own names.",
        ),
    ] = False
    stdin_filename: Annotated[
        str | None,
        option(
            "--stdin-filename",
            OUTPUT,
            "A name for standard input; imports are resolved in its directory.",
            metavar="PATH",
        ),
    ] = None


@dataclass(frozen=True)
class ReviewOptions:
    """What is shown instead of writing scripts."""

    diff: Annotated[
        bool,
        option(
            "--diff", REVIEW, "Show what would change as a unified diff; for a directory, one that `git apply` accepts."
        ),
    ] = False
    check: Annotated[
        bool,
        option("--check", REVIEW, "Exit with 1 if something would change."),
    ] = False
    explain: Annotated[
        bool,
        option("--explain", REVIEW, "Show every place where a model is created, the decision about it, and why."),
    ] = False
    statistics: Annotated[
        bool,
        option("--statistics", REVIEW, "Count these places by decision and reason."),
    ] = False


@dataclass(frozen=True)
class ReportOptions:
    """What is reported, and how."""

    report: Annotated[
        list[str] | None,
        option(
            "--report",
            REPORTS,
            "Also write a report: .html (a page for review), .md (a pull-request comment), .sarif (code"
            " scanning) or .json. May be repeated.",
            metavar="FILE",
        ),
    ] = None
    format_: Annotated[
        FormatName,
        option(
            "--format",
            REPORTS,
            "What to print: messages, the JSON report, or annotations for GitHub Actions.",
            metavar="text|json|github",
            show_default=True,
        ),
    ] = FormatName.TEXT
    merge_reports: Annotated[
        bool,
        option(
            "--merge-reports",
            REPORTS,
            "Merge the .json reports of shards, given as PATH, into the one that --report names.",
        ),
    ] = False


@dataclass(frozen=True)
class TraceOptions:
    """What programs trace: the options for `Settings`."""

    select: Annotated[
        list[str] | None,
        option(
            "--select",
            TRACE,
            "Wrap only models bound to a matching name ('model', 'self.net*'). May be repeated.",
            metavar="NAME-GLOB",
        ),
    ] = None
    skip: Annotated[
        list[str] | None,
        option(
            "--skip",
            TRACE,
            "Do not wrap models bound to a matching name, even if selected. May be repeated.",
            metavar="NAME-GLOB",
        ),
    ] = None
    min_confidence: Annotated[
        ConfidenceName | None,
        option(
            "--min-confidence",
            TRACE,
            "Wrap only objects that are models with at least this confidence: certain, likely or possible. "
            "[dim]\\[default:"
            " likely][/dim]",
            metavar="LEVEL",
        ),
    ] = None
    recurse: Annotated[
        bool | None,
        option("--recurse/--no-recurse", TRACE, "Trace submodules too. [dim]\\[default: yes][/dim]"),
    ] = None
    logdir: Annotated[
        str | None,
        option(
            "--logdir",
            TRACE,
            "Where the script writes its trace; a name that ends in .log makes it a text log. [dim]\\[default:"
            " proxy_trace][/dim]",
            metavar="DIR",
        ),
    ] = None
    log_level: Annotated[
        LogLevelName | None,
        option(
            "--log-level",
            TRACE,
            "How much to trace: only the first NaNs (WARNING), every call and update (INFO), or every operation "
            "(DEBUG)."
            " [dim]\\[default: INFO][/dim]",
            metavar="LEVEL",
            case_sensitive=False,
        ),
    ] = None
    statistics_of: Annotated[
        StatisticsName | None,
        option(
            "--statistics-of",
            TRACE,
            "For which tensors to record the minimum, maximum, norm and fingerprint: parameters, buffers and "
            "gradients (state), also outputs of modules (outputs), or everything (all). [dim]\\[default: state][/dim]",
            metavar="WHICH",
            case_sensitive=False,
        ),
    ] = None
    first: Annotated[
        int | None,
        option("--first", TRACE, "Record the first N iterations; after those, --every applies.", metavar="N", min=0),
    ] = None
    every: Annotated[
        int | None,
        option("--every", TRACE, "Record every N-th iteration. [dim]\\[default: 1][/dim]", metavar="N", min=1),
    ] = None
    ranks: Annotated[
        str | None,
        option(
            "--ranks",
            TRACE,
            "Which ranks of a distributed run write a trace, such as 0,8-15. [dim]\\[default: all][/dim]",
            metavar="RANKS",
            callback=_check_ranks,
        ),
    ] = None
    max_size: Annotated[
        str | None,
        option(
            "--max-size",
            TRACE,
            "How large the trace of each process may grow, such as 500M or 2G. Beyond that, only changes of state are "
            "recorded. [dim]\\[default: no limit][/dim]",
            metavar="SIZE",
            callback=_check_size,
        ),
    ] = None
    flow: Annotated[
        bool | None,
        option(
            "--flow/--no-flow",
            TRACE,
            "Trace which way the model's code goes: how each condition evaluates, how often each loop runs."
            " [dim]\\[default: no][/dim]",
        ),
    ] = None


@dataclass(frozen=True)
class RewritingOptions(TraceOptions):
    """The same, and where proxies go in instrumented scripts."""

    factories: Annotated[
        FactoryRuleName | None,
        option(
            "--factories",
            TRACE,
            "Where to wrap a model that a public function only creates and returns: in its callers, or in the "
            "function if none of the given files calls it ([bold]auto[/bold]); always in the function; or never in it."
            " [dim]\\[default: auto][/dim]",
            metavar="auto|always|never",
        ),
    ] = None


@dataclass(frozen=True)
class SpeedOptions:
    """How the work is divided."""

    jobs: Annotated[
        int | None,
        option(
            "--jobs -j",
            SPEED,
            "How many scripts to process in parallel. [dim]\\[default: one per processor][/dim]",
            min=1,
            metavar="N",
        ),
    ] = None
    engine: Annotated[
        str,
        option(
            "--engine",
            SPEED,
            "Where to process them: in [bold]local[/bold] processes, on [bold]ray[/bold], or on another engine that "
            "an installed package provides.",
            metavar="NAME",
            show_default=True,
        ),
    ] = "local"
    shard: Annotated[
        str | None,
        option(
            "--shard", SPEED, "Process only part I of N, chosen by a hash of each path, for job arrays.", metavar="I/N"
        ),
    ] = None
    resume: Annotated[
        bool,
        option("--resume", SPEED, "Continue an interrupted run that had the same --report."),
    ] = False


@dataclass(frozen=True)
class CacheOptions:
    """What is kept between runs."""

    cache: Annotated[
        bool,
        option(
            "--cache/--no-cache",
            SPEED,
            "Cache results, and skip files that have not changed. [dim]\\[default: yes][/dim]",
        ),
    ] = True
    cache_dir: Annotated[
        str | None,
        option(
            "--cache-dir",
            SPEED,
            "Where the cache is. [dim]\\[default: the user's cache directory][/dim]",
            metavar="DIR",
        ),
    ] = None


@dataclass(frozen=True)
class ClearableCacheOptions(CacheOptions):
    """The same, and whether it is cleared first."""

    clear_cache: Annotated[
        bool,
        option("--clear-cache", SPEED, "Empty the cache first."),
    ] = False


@dataclass(frozen=True)
class MessageOptions:
    """Which messages are printed."""

    quiet: Annotated[
        bool,
        option("--quiet -q", MESSAGES, "Print errors only."),
    ] = False
    verbose: Annotated[
        bool,
        option("--verbose -v", MESSAGES, "Print every decision as well."),
    ] = False
    version: Annotated[
        bool,
        option("--version -V", MESSAGES, "Show the version and exit.", callback=_print_version, is_eager=True),
    ] = False


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """A function for typer with every option of the groups that `function` takes; it builds the groups from them."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    for parameter in inspect.signature(function).parameters.values():
        group = parameter.annotation
        if not (isinstance(group, type) and is_dataclass(group)):
            parameters.append(parameter)
            continue
        groups[parameter.name] = group
        parameters.extend(
            parameter.replace(name=each.name, annotation=each.type, default=each.default) for each in fields(group)
        )

    @functools.wraps(function)
    def take(**values: Any) -> None:
        grouped = {
            name: group(**{each.name: values.pop(each.name) for each in fields(group)})
            for name, group in groups.items()
        }
        function(**values, **grouped)

    take.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    take.__annotations__ = {each.name: each.annotation for each in parameters}
    return take
