"""A trace as the text log of `proxy_wrapper.writing.text_form`, in one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from proxy_wrapper.writing.sinks.appended_file import AppendedFile
from proxy_wrapper.writing.text_form import TextForm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_wrapper.events import AnyEvent, Run


class TextLogSink:
    """Appends to the file `logdir`. Further processes of the run add their rank and process id to its name."""

    def __init__(self, logdir: str, run: Run) -> None:
        """Open the file.

        Raises:
            OSError: if it cannot be opened.
        """
        path = Path(logdir)
        if run.parent_pid or run.rank:
            path = path.with_name(f"{path.stem}.rank{run.rank}-{run.pid}{path.suffix}")
        self._form = TextForm()
        self._file = AppendedFile(path, is_new=False)
        self.write([run])

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    def write(self, events: Sequence[AnyEvent]) -> None:
        """Append the lines of `events`."""
        form = self._form
        text = "".join(f"{line}\n" for event in events for line in form.lines(event))
        self._file.append(text.encode("utf-8", "backslashreplace"))

    def refresh(self) -> None:
        """Do nothing. The text does not mention ranks, and the file keeps its name."""

    def size(self) -> int:
        """The number of bytes written."""
        return self._file.size

    def discard(self) -> None:
        """Close the file. What other processes have written remains."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
