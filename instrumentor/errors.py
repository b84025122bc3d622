"""User errors, one class each."""

from __future__ import annotations


class InstrumentError(Exception):
    """An error that the user can fix; the base class of this package's errors.

    Attributes:
        path: the script concerned, as the user named it; "<stdin>" for standard input; None if there is none.
        line: line from 1; None if there is no single line.
        column: column from 1, in characters; None if there is no single column.
        message: one sentence that says what is wrong, why, and what to do.
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
        """Format as compilers do: `path:line:column: message`, without the parts that are unknown."""
        place = [str(part) for part in (self.path, self.line, self.column) if part is not None]
        return ": ".join([":".join(place), self.message]) if place else self.message


class SourceSyntaxError(InstrumentError):
    """The script is not Python that this interpreter can parse."""


class SourceDecodeError(InstrumentError):
    """The script's bytes do not fit the encoding it declares."""


class NotInstrumentedError(InstrumentError):
    """A revert was requested, but the script has no source comment."""


class EditedSinceError(InstrumentError):
    """The instrumented script was edited: the result does not match the recorded hash."""


class InternalError(InstrumentError):
    """The instrumented text failed its check: a bug in this tool. Nothing is written."""


class MissingFileError(InstrumentError):
    """A script that was named does not exist."""


class DirectoryGivenError(InstrumentError):
    """A directory was named where a script is expected."""


class UnreadableFileError(InstrumentError):
    """A script exists but cannot be read."""


class OutputIsSourceError(InstrumentError):
    """The output would replace the script it is made from, and `--in-place` was not given."""


class OutputExistsError(InstrumentError):
    """The output would replace a file that this tool did not write, or that was edited since."""


class OutputLeadsOutError(InstrumentError):
    """The output would follow a link to a place that the user did not name."""


class OutputClashError(InstrumentError):
    """Two scripts of one run would be written to the same file."""


class UnnamedOriginalError(InstrumentError):
    """The original has no usable file name, so only the user can say where it goes."""


class UnwritableOutputError(InstrumentError):
    """The output cannot be written at its target."""


class StubFileError(InstrumentError):
    """A .pyi file was named, which is never run."""


class ConfigError(InstrumentError):
    """An invalid setting on the command line or in a configuration file."""


class ChangedMeanwhileError(InstrumentError):
    """The script on disk was changed after it was read; writing would lose that change."""


class NotebookError(InstrumentError):
    """The notebook cannot be read, or its Python cannot be told apart from magics."""


class ReportError(InstrumentError):
    """A report cannot be read, or its file name does not say which kind it is."""


class EngineError(InstrumentError):
    """An engine is not installed, or does not start."""
