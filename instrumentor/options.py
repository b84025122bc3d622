"""The options that `instrument` and `instrument run` share."""

import re
from enum import Enum
from typing import Annotated, Any

import typer

from instrumentor.settings import RANKS_PATTERN, SIZE_PATTERN

FILES = "Files"
EXCLUDED = "Excluded files"
OUTPUT = "Output"
REVIEW = "Preview (writes no script)"
REPORTS = "Reports"
TRACE = "Tracing"
SPEED = "Speed and clusters"
MESSAGES = "Messages"


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
    """An option in a panel of the help; without a `metavar` it is a flag, behind which the help shows no type.

    Args:
        names: how it may be spelled, with blanks between.
        panel: the heading that it stands under.
        text: what the help says of it.
        metavar: what stands for its value.
        more: further arguments of `typer.Option`.
    """
    # Some versions of typer show "None" for what has no default.
    shown = {"show_default": False, **more}
    return typer.Option(*names.split(), help=text, metavar=metavar, rich_help_panel=panel, **shown)


def _check_ranks(value: str | None) -> str | None:
    if value is not None and not re.fullmatch(RANKS_PATTERN, value):
        raise typer.BadParameter(
            f"{value!r} is not a list of ranks; write numbers and ranges of numbers, such as 0,8-15"
        )
    return value


def _check_size(value: str | None) -> str | None:
    if value is not None and not re.fullmatch(SIZE_PATTERN, value):
        raise typer.BadParameter(f"{value!r} is not a size; write a number and K, M, G or T, such as 500M or 2G")
    return value


ConfigOption = Annotated[
    str | None,
    option("--config", FILES, "Read settings from this TOML file alone.", metavar="FILE"),
]
IsolatedOption = Annotated[bool, option("--isolated", FILES, "Read no configuration file.")]
PythonPathOption = Annotated[
    list[str] | None,
    option(
        "--python-path",
        FILES,
        "Where the packages of the scripts are installed: a site-packages folder or an environment. May be"
        " repeated. [dim]\\[default: the active environment][/dim]",
        metavar="DIR",
    ),
]
SelectOption = Annotated[
    list[str] | None,
    option(
        "--select",
        TRACE,
        "Wrap only models bound to a matching name ('model', 'self.net*'). May be repeated.",
        metavar="NAME-GLOB",
    ),
]
SkipOption = Annotated[
    list[str] | None,
    option(
        "--skip",
        TRACE,
        "Leave models bound to a matching name alone, selected or not. May be repeated.",
        metavar="NAME-GLOB",
    ),
]
MinConfidenceOption = Annotated[
    ConfidenceName | None,
    option(
        "--min-confidence",
        TRACE,
        "Wrap only what is a model with at least this certainty: certain, likely or possible. [dim]\\[default:"
        " likely][/dim]",
        metavar="LEVEL",
    ),
]
FactoriesOption = Annotated[
    FactoryRuleName | None,
    option(
        "--factories",
        TRACE,
        "Where a public function that only returns its model has it wrapped: by its callers, or in the function where"
        " none of the files given calls it ([bold]auto[/bold]); always in the function; or never there."
        " [dim]\\[default: auto][/dim]",
        metavar="auto|always|never",
    ),
]
RecurseOption = Annotated[
    bool | None,
    option("--recurse/--no-recurse", TRACE, "Trace submodules too. [dim]\\[default: yes][/dim]"),
]
LogdirOption = Annotated[
    str | None,
    option(
        "--logdir",
        TRACE,
        "Where the script writes its trace; a name that ends in .log makes it a text log. [dim]\\[default:"
        " proxy_trace][/dim]",
        metavar="DIR",
    ),
]
LogLevelOption = Annotated[
    LogLevelName | None,
    option(
        "--log-level",
        TRACE,
        "How much to trace: only first NaNs (WARNING), every call and update (INFO), or every operation (DEBUG)."
        " [dim]\\[default: INFO][/dim]",
        metavar="LEVEL",
        case_sensitive=False,
    ),
]
StatisticsOfOption = Annotated[
    StatisticsName | None,
    option(
        "--statistics-of",
        TRACE,
        "Which tensors to record minimum, maximum, norm and fingerprint of: parameters, buffers and gradients"
        " (state), also what modules put out (outputs), or everything (all). [dim]\\[default: state][/dim]",
        metavar="WHICH",
        case_sensitive=False,
    ),
]
FirstOption = Annotated[
    int | None,
    option("--first", TRACE, "Record the first N iterations; after these, see --every.", metavar="N", min=0),
]
EveryOption = Annotated[
    int | None,
    option("--every", TRACE, "Record each N-th iteration. [dim]\\[default: 1][/dim]", metavar="N", min=1),
]
RanksOption = Annotated[
    str | None,
    option(
        "--ranks",
        TRACE,
        "Which processes of a distributed run write a trace, such as 0,8-15. [dim]\\[default: all][/dim]",
        metavar="RANKS",
        callback=_check_ranks,
    ),
]
MaxSizeOption = Annotated[
    str | None,
    option(
        "--max-size",
        TRACE,
        "How large the trace of each process may grow, such as 500M or 2G. From there on only changes of parameters"
        " and buffers are recorded. [dim]\\[default: no limit][/dim]",
        metavar="SIZE",
        callback=_check_size,
    ),
]
FlowOption = Annotated[
    bool | None,
    option(
        "--flow/--no-flow",
        TRACE,
        "Trace which way the model's code goes: how each test comes out, how often each loop runs."
        " [dim]\\[default: no][/dim]",
    ),
]
CacheOption = Annotated[
    bool,
    option(
        "--cache/--no-cache",
        SPEED,
        "Keep results, and do not look again at files that have not changed. [dim]\\[default: yes][/dim]",
    ),
]
CacheDirOption = Annotated[
    str | None,
    option(
        "--cache-dir",
        SPEED,
        "Where to keep results. [dim]\\[default: the user's cache directory][/dim]",
        metavar="DIR",
    ),
]
