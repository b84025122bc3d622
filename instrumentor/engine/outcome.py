"""A script to process, and what processing it gave: plain values that cross to other processes and machines."""

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
        path: where it lies, absolute.
        shown: its path as the user would type it, for messages.
        name: what its source comment is to record.
        settings: what the user asked for.
        goal: "instrument"; "explain" for all decisions, about the original where it is instrumented already; "revert";
            "program" to instrument it together with the files of its project that it runs.
        root: the directory it was found in; None where it was given by name.
        packages: where the packages that it imports are installed.
        modules_cache: the folder in which what is read of them is kept; None to keep nothing.
        called: the functions at its top that other files given with it call.
        restated: the settings that its lines are to state from now on, if it is instrumented already; the others of
            them stay as they are.
    """

    path: str
    shown: str
    name: str
    settings: Settings
    goal: Goal = "instrument"
    root: str | None = None
    packages: Packages = Packages()
    modules_cache: str | None = None
    called: tuple[str, ...] = ()
    restated: tuple[str, ...] = ()

    @property
    def was_found(self) -> bool:
        """Whether it was found in a directory, not given by name.

        Then it is not parsed where its bytes show that it can hold no site, and what was never instrumented is no
        mistake in a revert.
        """
        return self.root is not None

    @property
    def is_brief(self) -> bool:
        """Whether nothing is said of it unless it changes; then nobody needs the decisions."""
        return self.was_found and self.goal == "instrument"


class Failure(msgspec.Struct, frozen=True):
    """Why a script could not be processed.

    Attributes:
        text: the line to print, with path, line and column where they are known.
        message: the same without them.
        line: from 1.
        column: from 1.
        trace: the traceback, for a mistake of this tool's own.
    """

    text: str
    message: str
    line: int | None = None
    column: int | None = None
    trace: str | None = None

    @classmethod
    def of(cls, error: InstrumentError) -> Failure:
        """What a mistake tells of itself."""
        return cls(str(error), error.message, error.line, error.column)

    @classmethod
    def of_unexpected(cls, error: Exception, shown: str) -> Failure:
        """What to tell of a mistake of this tool's own that was met in one file; the others need not wait for it."""
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
    """What processing one script gave.

    Attributes:
        status: what became of it.
        source: the script as it was read.
        result_digest: of the bytes to write; empty where there are none.
        lines: how many lines it has.
        decisions: every site with its verdict and reason; none for a brief task whose script shows by its own text that
            nothing in it is to be wrapped.
        original: the script's bytes, where it changes.
        result: the bytes to write, where it changes.
        recorded_source: for a revert, what the source comment calls the original.
        cells: for a notebook, the first line of each of its code cells in the numbering of `decisions`, with the
            cell's number from 1.
        failure: what went wrong.
        elsewhere: for a script given by name, the other files of its project that make models which it does not get
            hold of, relative to its directory.
        dependencies: the other files that were looked at.
        lookups: the modules of installed packages that were looked for.
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
