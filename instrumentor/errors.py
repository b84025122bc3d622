"""What a user can get wrong, one class each."""

from __future__ import annotations


class InstrumentError(Exception):
    """A mistake the user can mend; the base of all of this package's errors.

    Attributes:
        path: the script it is about as the user named it, "<stdin>" for standard input; None where there is none.
        line: line from 1, None where there is no one line.
        column: column from 1 in characters, None where there is no one column.
        message: one sentence that says what, why and the way out.
    """

    def __init__(
        self, message: str, *, path: str | None = None, line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.line = line
        self.column = column

    def __str__(self) -> str:
        """Render as compilers do: `path:line:column: message`, less what is not known."""
        place = [str(part) for part in (self.path, self.line, self.column) if part is not None]
        return ": ".join([":".join(place), self.message]) if place else self.message


class SourceSyntaxError(InstrumentError):
    """The script is not Python that this interpreter can parse."""


class SourceDecodeError(InstrumentError):
    """The script's bytes do not fit the encoding it declares."""


class NotInstrumentedError(InstrumentError):
    """A revert was asked for, but the script carries no source comment."""


class EditedSinceError(InstrumentError):
    """A revert was asked for, but the instrumented script was edited: the recorded hash does not match."""


class InternalError(InstrumentError):
    """The instrumented text did not pass its check: a mistake of this tool's, and nothing is written."""


class MissingFileError(InstrumentError):
    """A script was named that is not there."""


class DirectoryGivenError(InstrumentError):
    """A directory was named where a script is wanted."""


class UnreadableFileError(InstrumentError):
    """A script is there but cannot be read."""


class OutputIsSourceError(InstrumentError):
    """The output would replace the script it is made from, and `--in-place` was not given."""


class OutputExistsError(InstrumentError):
    """The output would replace a file that this tool did not write, or that was edited since it did."""


class OutputLeadsOutError(InstrumentError):
    """The output would go through a link to somewhere that the user has not named."""


class OutputClashError(InstrumentError):
    """Two scripts of one run would be written to the same file."""


class UnnamedOriginalError(InstrumentError):
    """The original has no usable file name of its own, so that only the user can say where it goes."""


class UnwritableOutputError(InstrumentError):
    """The output cannot be written where it is wanted."""


class StubFileError(InstrumentError):
    """A .pyi file was named; nothing ever runs it."""


class ConfigError(InstrumentError):
    """A setting that means nothing, on the command line or in a configuration file."""


class ChangedMeanwhileError(InstrumentError):
    """The script on the disk is no longer the one that was read; what was done to it since would be lost."""


class NotebookError(InstrumentError):
    """The notebook is not one that can be read, or its cells cannot be told apart from magics."""


class ReportError(InstrumentError):
    """A report that cannot be read or whose kind the file's name does not say."""


class EngineError(InstrumentError):
    """An engine that is not installed, or that does not start."""
