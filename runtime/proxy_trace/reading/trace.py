"""Reads traces: a run, its files, and the events in them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

import msgspec

from proxy_trace.errors import (
    NewerFormatError,
    NoSuchRankError,
    NotATraceError,
    TextLogError,
    UnreadableFileError,
)
from proxy_trace.reading.bounded_lines import BoundedLines, open_regular
from proxy_trace.reading.find_run import find_run_files
from proxy_trace.reading.names import Names
from proxy_wrapper.events import FORMAT, AnyEvent, Location, Module, Run, StateTensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Self

KINDS: Final[dict[str, type]] = {cls.__struct_config__.tag: cls for cls in get_args(AnyEvent)}
"""The event classes by their `kind` in a trace, in the order of the schema."""

_DEFINITIONS: Final = frozenset(cls for cls in KINDS.values() if issubclass(cls, (Location, Module, StateTensor)))
_TEXT_LOG_STARTS: Final = (b"found the root object", b"logger_proxy: ", b"INFO:root:", b"WARNING:root:")
NO_RECORD: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The errors that decoding a malformed line raises."""

_UNKNOWN_KINDS: Final = 100
"""The most unknown kinds that are told apart."""

_OTHER_KINDS: Final = "others"


class _Header(msgspec.Struct):
    """What the first record of a trace contains in every format."""

    kind: str = ""
    format: int = 0


class _Tag(msgspec.Struct):
    """What every record contains."""

    kind: str


class DamagedFile(NamedTuple):
    """An unreadable file of a run, and the reason."""

    path: Path
    reason: str


class Reading:
    """One pass over the events of a file, in order, with counts of skipped lines.

    Attributes:
        names: the definitions met so far.
        malformed: how many lines were no records; one at the end without its newline is not counted here.
        first_malformed_line: the number of the first of those lines, from 1; 0 if there is none.
        unknown: how many records of kinds that this version does not know, by kind.
        surplus: how many definitions were left out, since there are more than `Names` keeps.
        is_cut: whether the last line breaks off, which is known at the end of the pass.
    """

    def __init__(self, path: Path) -> None:
        self.names = Names()
        self.malformed = 0
        self.first_malformed_line = 0
        self.unknown: dict[str, int] = {}
        self.surplus = 0
        self.is_cut = False
        self._path = path
        self._lines: BoundedLines | None = None
        self._position = 0
        self._unfinished = 0

    def __iter__(self) -> Iterator[AnyEvent]:
        """Yield the events; memory does not grow with their number.

        Raises:
            UnreadableFileError: if the file system refuses.
        """
        try:
            with open_regular(self._path) as file:
                lines = self._lines = BoundedLines(file)
                yield from self._events(lines)
        except OSError as error:
            raise UnreadableFileError(self._path, error) from error

    def written_since(self) -> Iterator[AnyEvent]:
        """Yield the events that have been written since this was last read to its end, by a process that still runs.

        A last line that has no line end yet is left for the next time.

        Raises:
            UnreadableFileError: if the file system refuses.
        """
        try:
            with open_regular(self._path) as file:
                began = self._position
                file.seek(began)
                lines = self._lines = BoundedLines(file)
                yield from self._events(lines, is_growing=True)
                self._position = began + lines.bytes_read - self._unfinished
        except OSError as error:
            raise UnreadableFileError(self._path, error) from error

    def _events(self, lines: BoundedLines, *, is_growing: bool = False) -> Iterator[AnyEvent]:
        decode = msgspec.json.Decoder(AnyEvent).decode
        learn = self.names.learn
        self._unfinished = 0
        for number, line in enumerate(lines, 1):
            if is_growing and lines.is_unfinished:
                self._unfinished = len(line)
                return
            try:
                event = decode(line)
            except NO_RECORD:
                self._read_over(line, number, is_cut=lines.is_unfinished)
                continue
            if type(event) in _DEFINITIONS and not learn(event, len(line)):
                self.surplus += 1
                continue
            yield event

    @property
    def bytes_read(self) -> int:
        """The number of bytes of the file that this pass has read."""
        return 0 if self._lines is None else self._lines.bytes_read

    @property
    def left_out(self) -> int:
        """The number of skipped lines."""
        return self.malformed + sum(self.unknown.values()) + self.surplus + self.is_cut

    def _read_over(self, line: bytes, number: int, *, is_cut: bool) -> None:
        if is_cut:
            self.is_cut = True
            return
        if not line or line.isspace():
            return
        try:
            kind = msgspec.json.decode(line, type=_Tag).kind
        except NO_RECORD:
            kind = ""
        if kind and kind not in KINDS:
            if kind not in self.unknown and len(self.unknown) >= _UNKNOWN_KINDS:
                kind = _OTHER_KINDS
            self.unknown[kind] = self.unknown.get(kind, 0) + 1
            return
        self.malformed += 1
        self.first_malformed_line = self.first_malformed_line or number


class TraceFile:
    """The trace of one process: `run` is its header."""

    def __init__(self, path: Path, run: Run) -> None:
        self.path = path
        self.run = run

    @classmethod
    def open(cls, path: Path) -> TraceFile:
        """Read the header of a trace file.

        Raises:
            NewerFormatError: if a later version of the format is needed to read it.
            TextLogError: if it is a text log.
            NotATraceError: if it is not a trace, or is truncated within the header.
            UnreadableFileError: if the file system refuses.
        """
        try:
            with open_regular(path) as file:
                lines = BoundedLines(file)
                line = next(iter(lines), b"")
        except OSError as error:
            raise UnreadableFileError(path, error) from error
        if line.startswith(_TEXT_LOG_STARTS):
            raise TextLogError(path)
        return cls(path, _decode_header(path, line, lines))

    def read(self) -> Reading:
        """A new pass over all events, including the header."""
        return Reading(self.path)

    def names(self) -> Names:
        """All definitions in the file, so that events before a redefinition also get the final name.

        Only the lines that can be definitions are decoded, so this costs a fraction of a full pass.
        """
        names = Names()
        decode = msgspec.json.Decoder(AnyEvent).decode
        try:
            with open_regular(self.path) as file:
                for line in BoundedLines(file):
                    if b'"id"' in line:
                        try:
                            names.learn(decode(line), len(line))
                        except NO_RECORD:
                            continue
        except OSError as error:
            raise UnreadableFileError(self.path, error) from error
        return names

    def started_us(self) -> int:
        """When the process started, in microseconds of Unix time; 0 if the header is invalid."""
        try:
            started = datetime.fromisoformat(self.run.started.replace("Z", "+00:00"))
        except ValueError:
            return 0
        if started.tzinfo is None:
            started = started.replace(tzinfo=timezone.utc)
        return (started - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1)

    def size_bytes(self) -> int:
        """The size of the file now; it may still grow."""
        try:
            return self.path.stat().st_size
        except OSError as error:
            raise UnreadableFileError(self.path, error) from error


class Trace:
    """One run: its files, ordered by rank, then by start; at least one.

    Attributes:
        path: what it was opened from.
        files: those with a readable header.
        damaged: those without.
    """

    def __init__(self, path: Path, files: list[TraceFile], damaged: list[DamagedFile]) -> None:
        self.path = path
        self.files = files
        self.damaged = damaged

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Open the run at `path`.

        Args:
            path: a run directory, one .jsonl file, or a logdir, of which the newest run is taken.

        Raises:
            TraceError: if there is no trace that can be read; each subclass is a reason.
        """
        path = Path(path)
        files: list[TraceFile] = []
        damaged: list[DamagedFile] = []
        refused: list[NotATraceError | NewerFormatError] = []
        for file in find_run_files(path):
            try:
                files.append(TraceFile.open(file))
            except (NotATraceError, NewerFormatError) as error:  # noqa: PERF203  One file to a process: these are few.
                refused.append(error)
                damaged.append(DamagedFile(file, error.reason))
        if not files:
            raise next((error for error in refused if isinstance(error, NewerFormatError)), refused[0])
        files.sort(key=lambda file: (file.run.rank, file.run.started, file.run.pid))
        return cls(path, files, damaged)

    def ranks(self) -> list[int]:
        """The ranks that left a file, ascending."""
        return sorted({file.run.rank for file in self.files})

    def of_rank(self, rank: int) -> Self:
        """The same run with the files of one rank.

        Raises:
            NoSuchRankError: if that rank left none.
        """
        files = [file for file in self.files if file.run.rank == rank]
        if not files:
            raise NoSuchRankError(rank, self.ranks())
        return type(self)(self.path, files, [])


def _decode_header(path: Path, line: bytes, lines: BoundedLines) -> Run:
    if not line.strip():
        raise NotATraceError(path, "its first line is empty" if lines.bytes_read else "it is empty")
    try:
        header = msgspec.json.decode(line, type=_Header)
    except NO_RECORD:
        if lines.is_unfinished and line.startswith(b'{"kind":"run"'[: len(line)]):
            raise NotATraceError(path, "it ends within its first record") from None
        raise NotATraceError(path, "its first line is not a record") from None
    if header.kind != "run":
        raise NotATraceError(path, "its first record is not of kind 'run'")
    if header.format > FORMAT:
        raise NewerFormatError(path, header.format, FORMAT)
    try:
        return msgspec.json.decode(line, type=Run)
    except NO_RECORD as error:
        if str(error).endswith("`$.run`"):
            raise NotATraceError(path, "its run id is not a valid name") from None
        raise NotATraceError(path, f"its first record is malformed ({error})") from None
