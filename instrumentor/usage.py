"""Checks and values that need the command line as a whole, not a single option."""

from __future__ import annotations

import os
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from msgspec import UNSET

from instrumentor.configuration import Section
from instrumentor.notebooks.cells import is_notebook
from instrumentor.paths.files import STANDARD_STREAM, is_directory_output
from instrumentor.paths.selection import expand_globs, is_directory
from instrumentor.plain_text import escape_unprintable
from instrumentor.report.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from instrumentor.request import Request

    # Whether something is wrong, which option it concerns, and the message.
    _Check = tuple[bool, str, str]

# The settings that affect what is written into scripts.
_TRACED = (
    "logdir",
    "log_level",
    "statistics_of",
    "first",
    "every",
    "ranks",
    "max_size",
    "flow",
    "recurse",
    "min_confidence",
    "factories",
    "select",
    "skip",
)

# Pairs of options that contradict each other or need the same output.
_EXCLUDING = (
    ("--in-place", "--output"),
    ("--explain", "--diff"),
    ("--explain", "--revert"),
    ("--statistics", "--revert"),
    ("--quiet", "--verbose"),
    ("--isolated", "--config"),
)


def make_overrides(*groups: object) -> Section:
    """The settings that were given as options in some groups."""
    given = {name: value for group in groups for name, value in vars(group).items() if value is not None}
    stated = {name: _plain(given[name]) for name in Section.__struct_fields__ if name in given}
    return Section(**stated)  # type: ignore[arg-type]


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    return tuple(value) if isinstance(value, list) else value


def find_arguments(paths: Sequence[str], files_from: str | None) -> tuple[str, ...]:
    """The files and directories to process: the named ones, with globs expanded, and those listed in a file.

    Raises:
        typer.BadParameter: the list cannot be read, or both it and a script would come from standard input.
    """
    listed = [] if files_from is None else _read_paths(files_from)
    named = (*paths, *listed)
    if files_from == STANDARD_STREAM and STANDARD_STREAM in named:
        raise typer.BadParameter(
            "cannot be - if standard input is a script; give paths only", param_hint="--files-from"
        )
    return tuple(expand_globs(named))


def _read_paths(source: str) -> list[str]:
    """Read the paths that a file lists, one per line, or separated by NULs as `find -print0` writes them.

    Raises:
        typer.BadParameter: it cannot be read.
    """
    try:
        listed = sys.stdin.buffer.read() if source == STANDARD_STREAM else Path(source).read_bytes()
    except OSError as error:
        message = escape_unprintable(f"{source} cannot be read ({error.strerror})")
        raise typer.BadParameter(message, param_hint="--files-from") from None
    if b"\0" in listed:  # names may contain anything else
        return [os.fsdecode(each) for each in listed.split(b"\0") if each]
    return [os.fsdecode(each.rstrip(b"\r")) for each in listed.split(b"\n") if each.strip()]


def parse_shard(text: str) -> tuple[int, int]:
    """Read `I/N`.

    Raises:
        typer.BadParameter: the text is not a shard.
    """
    index, _, count = text.partition("/")
    if index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count):
        return int(index), int(count)
    raise typer.BadParameter(f"{text!r} is not a shard; write 1/8, 2/8, ... 8/8", param_hint="--shard")


def refuse_nonsense(request: Request) -> None:
    """Refuse options that contradict one another and meaningless values.

    Raises:
        typer.BadParameter: options that contradict one another, or a value that means nothing.
    """
    checks = (_wrong_together, _wrong_about_scripts, _wrong_about_entry, _wrong_about_results)
    _refuse_wrong(each for check in checks for each in check(request))


def refuse_nonsense_of_run(overrides: Section, script: str, python_path: Sequence[str], *, is_both: bool) -> None:
    """The same for `instrument run`.

    Args:
        overrides: the settings given as options.
        script: what is to be run.
        python_path: where packages are installed, as given.
        is_both: whether both `--config` and `--isolated` were given.

    Raises:
        typer.BadParameter: options that contradict one another, or a value that means nothing.
    """
    notebook = "is a notebook; in the notebook, run %load_ext proxy_wrapper, and put %%trace at the top of a cell"
    checks = [
        (not script, "SCRIPT", "is empty; name a script, or with -m a module"),
        (is_notebook(script), "SCRIPT", notebook),
        (is_both, "--isolated", "cannot be combined with --config; leave one of them out"),
        _missing_folders(python_path),
        _empty_logdir(overrides),
    ]
    _refuse_wrong(checks)


def _refuse_wrong(checks: Iterable[_Check]) -> None:
    for is_wrong, option, message in checks:
        if is_wrong:
            raise typer.BadParameter(escape_unprintable(message), param_hint=option)


def _missing_folders(python_path: Sequence[str]) -> _Check:
    gone = [each for each in python_path if not os.path.isdir(each)]  # noqa: PTH112 - no name makes it raise
    words = f"{', '.join(gone)} is not a directory; name a site-packages directory or an environment"
    return bool(gone), "--python-path", words


def _empty_logdir(overrides: Section) -> _Check:
    return overrides.logdir == "", "--logdir", "is empty; name a directory such as proxy_trace"


def _wrong_together(request: Request) -> Iterator[_Check]:
    acting = [option for option, is_given in _acting(request).items() if is_given]
    given = {
        **_acting(request),
        "--quiet": request.quiet,
        "--verbose": request.verbose,
        "--isolated": request.isolated,
        "--config": request.config is not None,
    }
    yield (
        request.show_files and bool(acting),
        "--show-files",
        f"lists files and does nothing else; leave out {' and '.join(acting)}",
    )
    yield (
        request.merge_reports and bool(acting),
        "--merge-reports",
        f"reads reports, not scripts; leave out {' and '.join(acting)}",
    )
    for one, other in _EXCLUDING:
        yield given[one] and given[other], one, f"cannot be combined with {other}; leave one of them out"
    traced = [name for name in _TRACED if getattr(request.overrides, name) is not UNSET]
    yield (
        request.revert and bool(traced),
        f"--{traced[0].replace('_', '-')}" if traced else "",
        "configures what is added to scripts, and --revert removes it; leave one of them out",
    )


def _wrong_about_scripts(request: Request) -> Iterator[_Check]:
    has_stdin = STANDARD_STREAM in request.arguments
    yield "" in request.arguments, "PATH", "is empty; name files or directories, . for the current one"
    yield request.in_place and has_stdin, "--in-place", "needs files; standard input cannot be written back"
    yield (
        request.stdin_name is not None and not has_stdin,
        "--stdin-filename",
        "names standard input, which is read only if a script is given as -",
    )
    yield _missing_folders(request.python_path)


def _wrong_about_entry(request: Request) -> Iterator[_Check]:
    if not request.entry:
        return
    arguments, output = request.arguments, request.output
    yield (
        STANDARD_STREAM in arguments or len(arguments) != 1 or any(map(is_directory, arguments)),
        "--entry",
        "needs exactly one script, the one that Python will run",
    )
    yield (
        any(map(is_notebook, arguments)),
        "--entry",
        "needs a script; name a notebook alone, or the directory with all its files",
    )
    yield (
        request.revert,
        "--entry",
        "cannot be combined with --revert; name the directory that holds the instrumented files instead",
    )
    yield (
        output is not None and os.path.isfile(output),  # noqa: PTH113 - no name makes it raise
        "--entry",
        "writes a tree of files; give a directory with -o",
    )


def _wrong_about_results(request: Request) -> Iterator[_Check]:
    output = request.output
    has_tree = any(map(is_directory, request.arguments))
    strange = [each for each in request.reports if Path(each).suffix.lower() not in KINDS]
    yield output == "", "--output", "is empty; name a file, a directory, or - for standard output"
    is_for_one = output is not None and not has_tree and not is_directory_output(output)
    yield (
        len(set(request.arguments)) > 1 and is_for_one,
        "--output",
        "cannot be standard output for several scripts; name one of them, or give a directory such as instrumented/"
        if output == STANDARD_STREAM
        else f"is a single file, but there are several scripts; give a directory, {output or ''}/ for a new one",
    )
    yield (
        has_tree and output == STANDARD_STREAM,
        "--output",
        "cannot be standard output for a directory; name a directory, or ask for --diff",
    )
    yield (
        request.rest != "link" and not request.entry and (output is None or not has_tree),
        "--copy-all" if request.rest == "copy" else "--changed-only",
        "only applies to the mirror of a directory; give a directory as PATH, and the place of its mirror with -o",
    )
    yield _empty_logdir(request.overrides)
    yield (
        bool(strange),
        "--report",
        f"{', '.join(strange)} is not a known kind of report; use a name that ends in {', '.join(KINDS)}",
    )
    for option, is_given, why in (
        ("--merge-reports", request.merge_reports, "to know where to write the merged report"),
        ("--resume", request.resume, "whose journal lists the files that are done"),
    ):
        yield is_given and not request.reports, option, f"needs --report FILE, {why}"
    yield (
        request.format != "text"
        and (request.diff or output == STANDARD_STREAM or STANDARD_STREAM in request.arguments),
        "--format",
        "needs standard output for itself; leave out --diff, - and -o -, or use --report",
    )


def _acting(request: Request) -> dict[str, bool]:
    """The options that say what to do with scripts, and whether they were given."""
    return {
        "--in-place": request.in_place,
        "--output": request.output is not None,
        "--entry": request.entry,
        "--revert": request.revert,
        "--diff": request.diff,
        "--check": request.check,
        "--explain": request.explain,
        "--statistics": request.statistics,
    }
