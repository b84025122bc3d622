"""A trace as JSON Lines: one event to a line, one file for each process, in a folder for each run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_wrapper.events import AnyEvent, Run


class JsonLinesSink:
    """Writes to `<logdir>/<run>/rank<rank>-<pid>.jsonl`."""

    def __init__(self, logdir: str, run: Run) -> None:
        """Make the folder and the file, and write `run` as its first line.

        Raises:
            OSError: if that cannot be done. A file that exists is never written to.
        """
        folder = Path(logdir) / run.run
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"rank{run.rank}-{run.pid}.jsonl"
        self._encoder = msgspec.json.Encoder()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._file = os.fdopen(os.open(self.path, flags, 0o666), "wb", buffering=0)
        try:
            self.write([run])
        except BaseException:
            self._file.close()
            raise

    def write(self, events: Sequence[AnyEvent]) -> None:
        """Append `events`; each call hands whole lines to the operating system."""
        text = memoryview(self._encoder.encode_lines(events))
        while text:
            text = text[self._file.write(text) or 0 :]

    def close(self) -> None:
        """Close the file."""
        self._file.close()
