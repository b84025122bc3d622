"""Tasks and their outcomes: plain values that can be sent to other processes and machines."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Literal

import msgspec

from instrumentor.decision import Decision  # noqa: TC001 - the cache resolves the fields' types
from instrumentor.paths.file_state import FileState  # noqa: TC001 - as above
from instrumentor.resolve.module_places import Lookup  # noqa: TC001 - as above
from instrumentor.resolve.search_path import Packages
from instrumentor.settings import Settings  # noqa: TC001 - as above

if TYPE_CHECKING:
    from instrumentor.errors import InstrumentError

Goal = Literal["instrument", "explain", "revert", "program"]
Status = Literal["changed", "unchanged", "already instrumented", "not instrumented", "failed"]


class Task(msgspec.Struct, frozen=True):
    """One script to process.

    Attributes:
        path: its absolute path.
        shown: its path as the user would type it, for messages.
        name: the path for its source comment.
        settings: what the user asked for.
        goal: "instrument"; "explain" for all decisions, about the original if it is already instrumented; "revert";
            "program" to instrument it together with the files of its project that it runs.
        root: the directory it was found in; None if it was named.
        packages: where the packages that it imports are installed.
        modules_cache: the folder in which facts about them are kept; None to keep nothing.
        looks_elsewhere: whether to find the other files of its project that make models.
        called: its top-level functions that other given files call.
        restated: the settings to update in its lines, if it is already instrumented; the others stay.
    """

    path: str
    shown: str
    name: str
    settings: Settings
    goal: Goal = "instrument"
    root: str | None = None
    packages: Packages = Packages()
    modules_cache: str | None = None
    looks_elsewhere: bool = False
    called: tuple[str, ...] = ()
    restated: tuple[str, ...] = ()

    @property
    def was_found(self) -> bool:
        """Whether it was found in a directory, not named.

        If so, it is not parsed if its bytes show that it has no site, and a revert ignores it if it was never
        instrumented.
        """
        return self.root is not None

    @property
    def is_brief(self) -> bool:
        """Whether it is reported only if it changes, so that an unchanged script's decisions are not needed."""
        return self.was_found and self.goal == "instrument"


class Failure(msgspec.Struct, frozen=True):
    """Why a script could not be processed.

    Attributes:
        text: the line to print, with path, line and column if known.
        message: the same without them.
        line: from 1.
        column: from 1.
        trace: the traceback, for a bug in this tool.
    """

    text: str
    message: str
    line: int | None = None
    column: int | None = None
    trace: str | None = None

    @classmethod
    def of(cls, error: InstrumentError) -> Failure:
        """The failure for an error."""
        return cls(str(error), error.message, error.line, error.column)

    @classmethod
    def of_unexpected(cls, error: Exception, shown: str) -> Failure:
        """The failure for a bug in this tool that one file triggered; the other files are still processed."""
        message = (
            f"internal error, the file was left as it is ({type(error).__name__}: {error});"
            " please report it, with what --verbose says"
        )
        return cls(f"{shown}: {message}", message, trace="".join(traceback.format_exception(error)))


class Change(msgspec.Struct, frozen=True, array_like=True):
    """One file that changes.

    Attributes:
        path: absolute.
        original: its bytes.
        result: the bytes that take their place.
    """

    path: str
    original: bytes
    result: bytes


class Outcome(msgspec.Struct, frozen=True):
    """The result of processing one script.

    Attributes:
        status: the kind of result.
        source: the script as it was read.
        result_digest: the digest of the bytes to write; empty if there are none.
        lines: how many lines it has.
        decisions: every site with its verdict and reason; none for a brief task if the script's own text shows that
            it has nothing to wrap.
        original: the script's bytes, if it changes.
        result: the bytes to write, if it changes.
        recorded_source: for a revert, the path of the original in the source comment.
        cells: for a notebook, the first line of each of its code cells in the numbering of `decisions`, with the
            cell's number from 1.
        failure: what went wrong.
        elsewhere: for a script that was named, the project's other files that make models which never reach it,
            relative to its directory.
        dependencies: the other files that were read.
        lookups: the modules of installed packages that were searched for.
    """

    status: Status
    source: FileState
    result_digest: bytes = b""
    lines: int = 0
    decisions: tuple[Decision, ...] = ()
    original: bytes | None = None
    result: bytes | None = None
    recorded_source: str = ""
    cells: tuple[tuple[int, int], ...] = ()
    failure: Failure | None = None
    elsewhere: tuple[str, ...] = ()
    dependencies: tuple[FileState, ...] = ()
    lookups: tuple[Lookup, ...] = ()
