"""Options shared by the commands, and functions for printing."""

from __future__ import annotations

import os
import re
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy_trace.reading.trace import Trace

DEFAULT_RUN: Final = "proxy_trace"
_HALF: Final = re.compile("[\ud800-\udfff]")
_READER_GONE: Final = 141  # 128 + SIGPIPE


class Format(str, Enum):
    """The values of `--format`."""

    TEXT = "text"
    JSON = "json"


RunArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="RUN",
        help=f"A run directory, one of its .jsonl files, or the logdir (its newest run). Default: ./{DEFAULT_RUN}",
        show_default=False,
    ),
]
ComparedRunsArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="RUN OTHER...",
        help="Run directories, .jsonl files of runs, or logdirs (their newest runs): one, and what to compare it with.",
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", metavar="text|json", help="Text, or JSON for programs.")]
RankOption = Annotated[
    int | None,
    typer.Option("--rank", metavar="N", min=0, help="Only the records of rank N.", show_default=False),
]
KindOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        "-k",
        metavar="KIND",
        help="Only events of this kind; separate several with commas.",
        show_default=False,
    ),
]
NameOption = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        "-n",
        metavar="GLOB",
        help="Only events that name a matching parameter, module, function or attribute.",
        show_default=False,
    ),
]
TensorNameOption = Annotated[
    list[str] | None,
    typer.Option(
        "--name", "-n", metavar="GLOB", help="Only parameters and buffers with a matching name.", show_default=False
    ),
]
ComparedNameOption = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        "-n",
        metavar="GLOB",
        help="Only parameters and buffers with a matching name; with --records, only records that name a match.",
        show_default=False,
    ),
]
ModuleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--module",
        "-m",
        metavar="GLOB",
        help="Only calls of matching modules, events during these calls, and events about their parameters.",
        show_default=False,
    ),
]
StepOption = Annotated[
    str | None,
    typer.Option(
        "--step",
        "-s",
        metavar="N|A-B",
        help="Only these optimizer steps, counted from 0: one (7), a range (2-5), or an open range (100-).",
        show_default=False,
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        metavar="N",
        min=1,
        help="Read the files of the run in N processes. Default for a large run: one per processor.",
        show_default=False,
    ),
]
StageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--stage",
        metavar="GLOB",
        help="Only this stage: train, eval, or a name that the program gave it; separate several with commas.",
        show_default=False,
    ),
]


def open_run(run: Path | None, rank: int | None = None) -> Trace:
    """Open the given RUN, or the newest run in the default logdir; only one rank if `rank` is given.

    Raises:
        NoRunGivenError: if `run` is None, and the default logdir has no run.
        TraceError: if it cannot be opened, or has no file of that rank.
    """
    from proxy_trace.errors import NoRunGivenError
    from proxy_trace.reading.trace import Trace

    default = Path(DEFAULT_RUN)
    if run is None and not default.exists():
        raise NoRunGivenError(DEFAULT_RUN)
    trace = Trace.open(run or default)
    return trace if rank is None else trace.of_rank(rank)


def print_lines(lines: Iterable[str]) -> None:
    """Write lines to standard output, made safe by `for_terminal`.

    Raises:
        typer.Exit: if the reader has closed the pipe, as with `| head`. No message is printed.
        UnwritableFileError: if writing fails for another reason, such as a full disk.
    """
    from proxy_trace.terminal.colour import for_terminal

    _write(map(for_terminal, lines))


def print_json(values: Iterable[Any], *, indented: bool = False) -> None:
    """Write values to standard output as JSON, one per line, or indented.

    Raises:
        typer.Exit: if the reader has closed the pipe.
        UnwritableFileError: if writing fails.
    """
    import msgspec

    from proxy_trace.terminal.colour import json_for_terminal

    def text(value: Any) -> str:
        encoded = _encode(value)
        return json_for_terminal((msgspec.json.format(encoded) if indented else encoded).decode())

    _write(map(text, values))


def _encode(value: Any) -> bytes:
    import msgspec

    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # A path may contain any bytes.
        import json

        text = json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))
        return _HALF.sub(lambda found: f"\\\\u{ord(found[0]):04x}", text).encode()


def _write(lines: Iterable[str]) -> None:
    from proxy_trace.errors import UnwritableFileError

    stream = sys.stdout
    try:
        stream.writelines(f"{line}\n" for line in lines)
        stream.flush()
    except OSError as error:
        # The interpreter flushes standard output again at exit, which must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(_READER_GONE) from None
        raise UnwritableFileError("standard output", error) from None


def print_note(message: str) -> None:
    """Print a message that is not an error on standard error."""
    from proxy_trace.terminal.colour import for_terminal

    print(for_terminal(f"proxy-trace: {message}"), file=sys.stderr)
