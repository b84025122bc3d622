"""A trace as JSON Lines: one event per line, one file per process, one folder per run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from proxy_wrapper.process.ignored_folder import keep_out_of_commits
from proxy_wrapper.writing.sinks.appended_file import AppendedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy_wrapper.events import AnyEvent, Run
    from proxy_wrapper.process.launch import Rank

_ROOM_FOR_RANK: Final = 48
"""Blanks at the end of the first line, so that it can be rewritten in place with a rank."""


class JsonLinesSink:
    """Writes to `<logdir>/<run>/rank<rank>-<pid>.jsonl`."""

    def __init__(self, logdir: str, run: Run, current_rank: Callable[[], Rank]) -> None:
        """Create the folder and the file, and write `run` as its first line.

        Args:
            logdir: the folder of all runs.
            run: the header, with the current rank and world size.
            current_rank: called before each write, for a rank that becomes known only later.

        Raises:
            OSError: if this fails. An existing file is never written to.
        """
        self._run = run
        self._current_rank = current_rank
        self._encoder = msgspec.json.Encoder()
        header = self._encode([run]).rstrip()
        folder = Path(logdir) / run.run
        self._file = _new_file(folder, run)
        keep_out_of_commits(folder)
        self._header_size = len(header) + _ROOM_FOR_RANK
        try:
            self._file.append(header.ljust(self._header_size) + b"\n")
        except BaseException:
            self._file.close()
            self.path.unlink(missing_ok=True)  # It is empty, and would block the next try.
            raise

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    def write(self, events: Sequence[AnyEvent]) -> None:
        """Append `events`. Each call passes whole lines to the operating system."""
        self._file.append(self._encode(events))

    def refresh(self) -> None:
        """Correct the header and the name of the file if the rank of the process has changed."""
        rank, world_size = self._current_rank()
        if (rank, world_size) == (self._run.rank, self._run.world_size):
            return
        run = msgspec.structs.replace(self._run, rank=rank, world_size=world_size)
        header = self._encode([run]).rstrip()
        if len(header) <= self._header_size:
            with self.path.open("r+b") as file:
                file.write(header.ljust(self._header_size))
        self._file.move_to(self.path.with_name(_file_name(run)))
        self._run = run

    def size(self) -> int:
        """The number of bytes written."""
        return self._file.size

    def discard(self) -> None:
        """Close the file and remove it."""
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _encode(self, events: Sequence[AnyEvent]) -> bytes:
        try:
            return self._encoder.encode_lines(events)
        except UnicodeEncodeError:  # A script's path and arguments may be any bytes, which UTF-8 may not.
            return self._encoder.encode_lines([_with_escapes(msgspec.to_builtins(event)) for event in events])


def _with_escapes(value: Any) -> Any:
    r"""`value` with all lone surrogates in it escaped, such as "\udcff". The text form does the same."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_with_escapes(key): _with_escapes(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_escapes(item) for item in value]
    return value


def _new_file(folder: Path, run: Run) -> AppendedFile:
    """The file of this process. It is numbered if the process already left one in this run and stopped tracing."""
    number = 1
    while (folder / _file_name(run, number)).exists():
        number += 1
    return AppendedFile(folder / _file_name(run, number), is_new=True)


def _file_name(run: Run, number: int = 1) -> str:
    return f"rank{run.rank}-{run.pid}{f'-{number}' if number > 1 else ''}.jsonl"
