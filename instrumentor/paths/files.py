"""Reads and writes scripts: files that should stay are not replaced, and writes are atomic."""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import re
import stat
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from instrumentor.errors import (
    ChangedMeanwhileError,
    DirectoryGivenError,
    MissingFileError,
    OutputClashError,
    OutputExistsError,
    OutputIsSourceError,
    UnnamedOriginalError,
    UnreadableFileError,
    UnwritableOutputError,
)
from instrumentor.paths.containment import refuse_dangling, refuse_to_leave

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from instrumentor.errors import InstrumentError

STANDARD_STREAM = "-"
STDIN_NAME = "<stdin>"
OUTPUT_PREFIX = "instrumented_"
_LARGEST = 1 << 26
_NO_CHARACTER = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Script:
    """A script as it was read.

    Attributes:
        shown: its path as the user typed it, for messages and reports; "<stdin>" for standard input without a name.
        name: the path for the source comment: `shown` with `/`, or only the file name if it is absolute.
        content: its bytes.
        path: its path; None for standard input.
        directory: where outputs go by default: its own, as typed.
    """

    shown: str
    name: str
    content: bytes
    path: Path | None
    directory: Path


@dataclass(frozen=True)
class Writing:
    """One file to write, unless that is refused.

    Attributes:
        target: its path; None for standard output.
        content: the bytes.
        in_place: whether the user wants to replace the script itself.
        force: whether the user wants to replace existing files.
        replaces: with `in_place`, the script's content when it was read.
        within: the directory that the user named, which output must not leave; None if the user named the file.
    """

    target: Path | None
    content: bytes
    in_place: bool = False
    force: bool = False
    replaces: bytes | None = None
    within: Path | None = None


def read_script(argument: str, *, stdin_name: str | None = None, shown: str | None = None) -> Script:
    """Read the script that one command-line argument names.

    Args:
        argument: a path, or `-` for standard input.
        stdin_name: the name to use for standard input.
        shown: the path to show, if it is not the one it is read from.

    Raises:
        MissingFileError: nothing exists there.
        DirectoryGivenError: a directory is there.
        UnreadableFileError: the file cannot be read.
    """
    if argument == STANDARD_STREAM:
        shown = stdin_name or STDIN_NAME
        directory = Path(stdin_name).parent if stdin_name else Path()
        return Script(shown, recorded_name(shown), _read_stdin(shown), None, directory)
    path, shown = Path(argument), shown or argument
    try:
        with path.open("rb") as file:
            content = _read_all(file, shown)
    except (FileNotFoundError, NotADirectoryError):
        raise missing_file(shown) from None
    except IsADirectoryError:
        raise _directory_given(shown) from None
    except (OSError, ValueError) as error:
        if _is_directory(path):  # Windows reports "permission denied" for a directory
            raise _directory_given(shown) from None
        raise UnreadableFileError(
            f"cannot be read ({describe_os_error(error)}); make it readable or name another file", path=shown
        ) from None
    return Script(shown, recorded_name(shown), content, path, path.parent)


def _read_stdin(shown: str) -> bytes:
    if sys.stdin is None:  # pythonw, or a shell's `<&-`
        raise UnreadableFileError("there is no standard input; name a file", path=shown)
    try:
        return _read_all(sys.stdin.buffer, shown)
    except OSError as error:
        raise UnreadableFileError(f"cannot be read ({describe_os_error(error)})", path=shown) from None


def _read_all(file: IO[bytes], shown: str) -> bytes:
    """A file's whole content; the size is limited because a device may never end.

    Raises:
        UnreadableFileError: it is larger than any script or notebook.
    """
    content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise UnreadableFileError(
            f"is larger than {_LARGEST >> 20} MB and is skipped; remove the outputs from a notebook, or the data from "
            "a script",
            path=shown,
        )
    return content


def recorded_name(shown: str) -> str:
    """Spell a path for the source comment: with `/`, and only its last part if it is absolute."""
    if os.path.isabs(shown):  # noqa: PTH117
        return os.path.basename(shown)  # noqa: PTH119
    return shown.replace(os.sep, "/")


def portable_path(path: str) -> str:
    """Spell a path for reports: with `/`, and as valid text even if its bytes are not."""
    return readable_text(path.replace(os.sep, "/"))


def readable_text(text: str) -> str:
    """A text that can be encoded: lone surrogates, from paths or a script's strings, are replaced."""
    return _NO_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", text)


def project_directory(script: Script) -> Path:
    """The directory that a script's imports start from; links are followed, as by Python itself."""
    return script.directory if script.path is None else Path(os.path.realpath(script.path)).parent


def read_siblings(script: Script) -> Callable[[str], bytes | None]:
    """Make the function that reads the project's other files for the core.

    Args:
        script: the script in whose directory they are looked up; links are followed, as by Python itself.

    Returns:
        A function from a path relative to that directory (`net.py`, `models/resnet.py`) to the file's bytes;
        None if there is no regular, readable file.
    """
    directory = project_directory(script)

    def read_sibling(relative: str) -> bytes | None:
        path = directory / relative
        try:
            # Reading a named pipe called net.py would block for ever.
            return path.read_bytes() if path.is_file() and path.stat().st_size <= _LARGEST else None
        except (OSError, ValueError):
            return None

    return read_sibling


def list_siblings(script: Script) -> Callable[[str], list[str]]:
    """Make the function by which the core finds out which modules and packages a folder of the project has.

    Args:
        script: the one to whose directory folders are relative.

    Returns:
        A function from a folder to the names in it that an import can find; none where there is no such folder.
    """
    directory = project_directory(script)
    return lambda relative: list_modules(directory / relative)


def list_modules(folder: Path) -> list[str]:
    """The names in a folder that an import can find, sorted; none where there is no such folder."""
    try:
        entries = sorted(folder.iterdir())
        return [each.stem for each in entries if each.suffix == ".py" or (each / "__init__.py").is_file()]
    except (OSError, ValueError):
        return []


def is_directory_output(output: str) -> bool:
    """Tell whether `--output` names a directory: an existing one, or a path that ends with a slash."""
    separators = tuple(separator for separator in (os.sep, os.altsep) if separator)
    return output.endswith(separators) or _is_directory(Path(output))


def instrumented_path(script: Script, output: str | None) -> Path | None:
    """Decide where an instrumented script goes; None for standard output.

    Without `output`, that is `instrumented_<name>` beside the script, or standard output for standard input.
    In a directory given as `output`, it keeps its name.

    Raises:
        UnnamedOriginalError: `output` is a directory, and the script comes from standard input without a name.
    """
    if output == STANDARD_STREAM or (output is None and script.path is None):
        return None
    if output is not None and not is_directory_output(output):
        return Path(output)
    if script.shown == STDIN_NAME:
        raise UnnamedOriginalError(
            f"standard input has no file name to write into {output}; add --stdin-filename or name a file with -o",
            path=STDIN_NAME,
        )
    name = OUTPUT_PREFIX + Path(script.shown).name
    return script.directory / name if output is None else Path(output) / name


def original_path(script: Script, recorded_source: str, output: str | None) -> Path | None:
    """Decide where the original of an instrumented script goes; None for standard output.

    Without `output`, it goes beside the script, under the name in the source comment. That is the script
    itself if it was instrumented in place. Only the last part of the recorded path counts, so that a file's
    content never leads out of its directory.

    Args:
        script: the instrumented script.
        recorded_source: the path of the original as the source comment records it.
        output: a file, a directory, or `-`.

    Raises:
        UnnamedOriginalError: the recorded name is not a file name.
    """
    if output == STANDARD_STREAM or (output is None and script.path is None):
        return None
    if output is not None and not is_directory_output(output):
        return Path(output)
    name = Path(recorded_source).name
    if recorded_source == STDIN_NAME or not _can_name_file(name):
        raise UnnamedOriginalError(
            f"the original is recorded as {recorded_source!r}, which is not a file name; use -o to say where it goes",
            path=script.shown,
        )
    return script.directory / name if output is None else Path(output) / name


def _can_name_file(name: str) -> bool:
    try:
        os.fsencode(name)
    except UnicodeEncodeError:  # lone surrogates, which a JSON string may contain
        return False
    return name not in ("", "..") and "\0" not in name


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name that is too long or invalid
        return False


def is_same_file(first: Path, second: Path) -> bool:
    """Tell whether two paths name the same file, also through links and folders that do not exist yet."""
    try:
        return first.samefile(second)
    except OSError:
        return os.path.realpath(first) == os.path.realpath(second)
    except ValueError:
        return False


def read_existing(target: Path) -> bytes | None:
    """Read what a write to `target` would replace; None if it replaces nothing (no file, a device, a pipe).

    Raises:
        UnwritableOutputError: it cannot be read, so it is unknown whether it may be replaced.
    """
    try:
        return target.read_bytes() if target.is_file() else None
    except (OSError, ValueError) as error:
        raise unwritable(target, error) from None


def write_script(
    script: Script,
    writing: Writing,
    *,
    taken: dict[str, str],
    reason_to_keep: Callable[[bytes], str | None],
) -> bool:
    """Write one result to its target, or refuse to.

    Args:
        script: its source; a new file gets the source's mode bits.
        writing: what to write, and where.
        taken: the files that this run has written, by real path, each with its script; updated.
        reason_to_keep: given an existing file's bytes, returns why it should stay ("was not written by
            instrument"); None if this tool may replace it.

    Returns:
        Whether anything was written: False if the target already has these bytes.

    Raises:
        OutputLeadsOutError: a link leads to a place that the user did not name.
        OutputIsSourceError: the target is the script, which was not requested.
        OutputExistsError: the target exists and must not be replaced.
        OutputClashError: another script of this run was written there.
        ChangedMeanwhileError: the target is the script, which was changed after it was read.
        UnwritableOutputError: the operating system refuses.
    """
    target = writing.target
    if target is None:
        write_stdout(writing.content)
        return True
    if not writing.in_place and script.path is not None and is_same_file(target, script.path):
        raise OutputIsSourceError(
            "the output would replace the script itself; choose another -o, or use --in-place",
            path=script.shown,
        )
    _refuse_links(target, writing.within)
    real = os.path.realpath(target)
    if real in taken:
        raise OutputClashError(
            f"would be written to {target}, like {taken[real]}; write them one at a time, each with its own -o",
            path=script.shown,
        )
    existing = read_existing(target)
    if existing == writing.content:
        taken[real] = script.shown
        return False
    if existing is not None:
        _refuse_to_replace(target, existing, writing, reason_to_keep)
    write_file(target, writing.content, mode_of=script.path, within=writing.within)
    taken[real] = script.shown
    return True


def _refuse_to_replace(
    target: Path, existing: bytes, writing: Writing, reason_to_keep: Callable[[bytes], str | None]
) -> None:
    """Raise unless the user requested to replace `target`, or this tool wrote it."""
    if writing.force:
        return
    if not writing.in_place:
        if (reason := reason_to_keep(existing)) is not None:
            raise OutputExistsError(f"{reason}; choose another -o, or overwrite it with --force", path=str(target))
    elif writing.replaces not in (None, existing):
        raise ChangedMeanwhileError(
            "was changed while it was being processed, and was left alone; run the command again", path=str(target)
        )
    # Replacing a file needs rights on its directory only, but a write-protected script should not change.
    elif not os.access(target, os.W_OK):
        raise UnwritableOutputError(
            "is write-protected; make it writable, or overwrite it with --force", path=str(target)
        )


def write_stdout(content: bytes) -> None:
    """Write exact bytes to standard output and flush.

    Raises:
        BrokenPipeError: the reader has gone (`instrument --diff a.py | head -1`).
        UnwritableOutputError: the operating system refuses for another reason, such as a full disk.
    """
    with open_stdout() as out:
        out.write(content)


class Output(Protocol):
    """Takes exact bytes."""

    def write(self, content: bytes, /) -> object:
        """Add some."""


class _GuardedOutput:
    """Writes to a file, and turns only errors of the operating system into this tool's errors."""

    def __init__(
        self, file: IO[bytes], telling_refusals: Callable[[], contextlib.AbstractContextManager[None]]
    ) -> None:
        self._file = file
        self._telling_refusals = telling_refusals

    def write(self, content: bytes, /) -> None:
        with self._telling_refusals():
            self._file.write(content)


@contextlib.contextmanager
def open_stdout() -> Iterator[Output]:
    """Open standard output for exact bytes; it is flushed when the block is left.

    Raises:
        BrokenPipeError: the reader has gone (`instrument --diff a.py | head -1`).
        UnwritableOutputError: the operating system refuses for another reason, such as a full disk.
    """
    yield _GuardedOutput(sys.stdout.buffer, _telling_refusals_of_stdout)
    with _telling_refusals_of_stdout():
        sys.stdout.buffer.flush()


@contextlib.contextmanager
def _telling_refusals_of_stdout() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnwritableOutputError(f"cannot be written ({describe_os_error(error)})", path="standard output") from None


def write_file(target: Path, content: bytes, *, mode_of: Path | None = None, within: Path | None = None) -> None:
    """Write `content` to `target` atomically.

    Missing parent directories are created. A link is followed and kept, unless it leads out of the directory
    `within`. An existing file keeps its mode bits (and its owner, if permitted); a new one gets those of `mode_of`.
    Other kinds of files (`/dev/null`, a named pipe) are written to, never replaced.

    Raises:
        OutputLeadsOutError: a link leads out of `within`; or, if that is None, a dangling link leads elsewhere.
        UnwritableOutputError: the operating system refuses; `target` is unchanged.
    """
    with _telling_refusals(target):
        _refuse_links(target, within)
        status = _status(target)
        if status is not None and not stat.S_ISREG(status.st_mode):
            target.write_bytes(content)
            return
        real = Path(os.path.realpath(target))
        _make_directory(real.parent)
        if status is None and mode_of is not None:
            mode: int | None = stat.S_IMODE(mode_of.stat().st_mode) & 0o777
        else:
            mode = None if status is None else stat.S_IMODE(status.st_mode)
        _replace(real, content, mode, status)


@contextlib.contextmanager
def open_whole(target: Path) -> Iterator[Output]:
    """Open a temporary file that becomes `target` at the end of the block, or is deleted on failure.

    Raises:
        OutputLeadsOutError: `target` is a dangling link that leads elsewhere.
        UnwritableOutputError: the operating system refuses; `target` is unchanged.
    """
    telling_refusals = partial(_telling_refusals, target)
    with telling_refusals():
        _refuse_links(target, None)
        status = _status(target)
        is_replaced = status is None or stat.S_ISREG(status.st_mode)
        if is_replaced:
            real = Path(os.path.realpath(target))
            _make_directory(real.parent)
            path = _temporary_name(real)
        else:
            path = target
        file = path.open("xb" if is_replaced else "wb")
    try:
        yield _GuardedOutput(file, telling_refusals)
        with telling_refusals():
            file.close()
            if is_replaced:
                os.replace(path, real)  # noqa: PTH105 - as below
    except BaseException:
        with contextlib.suppress(OSError):
            file.close()
        if is_replaced:
            with contextlib.suppress(OSError):
                path.unlink()
        raise


def _refuse_links(target: Path, within: Path | None) -> None:
    if within is None:
        refuse_dangling(target)
    else:
        refuse_to_leave(target, within)


@contextlib.contextmanager
def _telling_refusals(target: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise unwritable(target, error) from None


def _temporary_name(real: Path) -> Path:
    # Not tempfile: its files have mode 0600, and a new file should follow the user's umask.
    return real.with_name(f".instrument-{os.urandom(6).hex()}.tmp")


def _replace(real: Path, content: bytes, mode: int | None, status: os.stat_result | None) -> None:
    """Write `content` to a temporary file beside `real`, then rename it."""
    temporary = _temporary_name(real)
    try:
        with temporary.open("xb") as file:
            file.write(content)
        if status is not None and hasattr(os, "chown"):
            with contextlib.suppress(OSError):  # only root may change the owner
                os.chown(temporary, status.st_uid, status.st_gid)
        if mode is not None:
            temporary.chmod(mode)
        os.replace(temporary, real)  # noqa: PTH105 - atomic, and one name to make fail in tests
    except BaseException:  # clean up after Ctrl-C, too
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory)) from None


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def describe_os_error(error: Exception) -> str:
    """The operating system's message for an error, without the number and the path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def unwritable(target: Path, error: Exception) -> UnwritableOutputError:
    """The error for a file that the operating system refuses to write."""
    return UnwritableOutputError(
        f"cannot be written ({describe_os_error(error)}); choose another place with -o", path=str(target)
    )


def _directory_given(argument: str) -> InstrumentError:
    return DirectoryGivenError(
        f"is a directory; name the scripts in it, such as {argument.rstrip('/') or '/'}/*.py", path=argument
    )


def missing_file(shown: str) -> MissingFileError:
    """The error for a path that does not exist, with a suggestion."""
    return MissingFileError(f"no such file; {_nearest_name(Path(shown))}", path=shown)


def _nearest_name(path: Path) -> str:
    """Suggest an existing name for a path that does not exist."""
    if os.path.islink(path):  # noqa: PTH114 - no name makes it raise
        return "it is a link to nothing"
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except (OSError, ValueError):
        return f"there is no directory {path.parent} either"
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.75)
    return f"did you mean {path.parent / near[0]}?" if near else "check the path"
