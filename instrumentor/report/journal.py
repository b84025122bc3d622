"""The records of a run, stored on disk as it proceeds: memory stays flat, and interrupted runs can be resumed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import IO, TYPE_CHECKING

import msgspec

from instrumentor.errors import ReportError
from instrumentor.paths.containment import refuse_to_leave
from instrumentor.report.record import FileRecord, make_readable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PARTIAL = ".partial"


class Journal:
    """Records in a file, one JSON line each; a context manager that deletes the file after a complete run."""

    def __init__(self, beside: Path | None, *, run: str, resume: bool = False) -> None:
        """Start a journal, or continue one.

        Args:
            beside: the report it is for; the journal's name is the report's with `.partial`. None for an unnamed file.
            run: a digest of the run's options; a journal with other options is not continued.
            resume: continue the journal that an interrupted run left, if there is one.

        Raises:
            ReportError: the file cannot be written, or is the journal of another run.
            OutputLeadsOutError: a link leads elsewhere.
        """
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(FileRecord)
        self.done: dict[str, str | None] = {}
        """Where the result of each script went that an interrupted run was done with; None where none was written."""

        self._path = None if beside is None else beside.with_name(beside.name + PARTIAL)
        try:
            if self._path is None:
                self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
            else:
                refuse_to_leave(self._path, self._path.parent)
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("a+b" if resume else "w+b")
        except OSError as error:
            raise ReportError(
                f"cannot be written ({error.strerror}); choose another --report", path=str(beside)
            ) from None
        try:
            if not resume or not self._read_done(run):
                self._append(self._encoder.encode(run))
        except ReportError:
            self._close()
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._close()
        if kind is None and self._path is not None:
            self._path.unlink(missing_ok=True)

    def add(self, record: FileRecord) -> None:
        """Append a record durably: files in the journal are finished, whatever happens next.

        Raises:
            ReportError: it cannot be written, as on a full disk.
        """
        try:
            line = self._encoder.encode(record)
        except UnicodeEncodeError:
            line = self._encoder.encode(make_readable(record))
        self._append(line)

    def records(self) -> Iterator[FileRecord]:
        """All records in order; may be called again."""
        self._file.seek(0)
        self._file.readline()
        for line in self._file:
            yield self._decoder.decode(line)

    def _read_done(self, run: str) -> bool:
        """Read which files are finished; a truncated last line is removed.

        Returns:
            Whether there is a journal at all.
        """
        self._file.seek(0)
        header = self._file.readline()
        if not header.endswith(b"\n"):
            self._file.truncate(0)
            return False
        try:
            is_same = msgspec.json.decode(header) == run
        except msgspec.DecodeError:
            is_same = False
        if not is_same:
            raise ReportError(
                "was left by a run with other options; resume with the same ones, or remove it", path=str(self._path)
            )
        end = len(header)
        for line in self._file:
            try:
                record = self._decoder.decode(line) if line.endswith(b"\n") else None
            except msgspec.MsgspecError:
                record = None
            if record is None:
                break
            end += len(line)
            self.done[record.path] = record.written_to
        self._file.truncate(end)
        return True

    def _append(self, line: bytes) -> None:
        try:
            self._file.seek(0, os.SEEK_END)
            self._file.write(line + b"\n")
            self._file.flush()
        except OSError as error:
            where = tempfile.gettempdir() if self._path is None else str(self._path)
            raise ReportError(
                f"progress cannot be saved ({error.strerror}); free some space and run the command again", path=where
            ) from None

    def _close(self) -> None:
        with contextlib.suppress(OSError):  # retries a failed write, which was already reported
            self._file.close()
