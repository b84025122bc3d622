"""Reads and writes scripts: nothing is replaced that should stay, and nothing is written by half."""

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
        name: what the source comment records: `shown` with `/`, and only the file's name where it is absolute.
        content: its bytes.
        path: where it lies; None for standard input.
        directory: where outputs go by default: its own, as typed.
    """

    shown: str
    name: str
    content: bytes
    path: Path | None
    directory: Path


@dataclass(frozen=True)
class Writing:
    """One file to be written, or to be refused.

    Attributes:
        target: where to; None for standard output.
        content: the bytes.
        in_place: the user means to replace the script itself.
        force: the user means to replace whatever is there.
        replaces: with `in_place`, what the script held when it was read.
        within: the directory that the user named and that nothing leaves; None where the user named the file.
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
        stdin_name: the name that standard input goes by.
        shown: the path to call it by, where that is not the one it is read from.

    Raises:
        MissingFileError: nothing is there.
        DirectoryGivenError: a directory is there.
        UnreadableFileError: the operating system does not hand the bytes over.
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
        if _is_directory(path):  # Windows reports a directory as a denied permission
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
    """All that a file holds; a device may never end.

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
    """Spell a path as the source comment records it: with `/`, and only its last part where it is absolute."""
    if os.path.isabs(shown):  # noqa: PTH117
        return os.path.basename(shown)  # noqa: PTH119
    return shown.replace(os.sep, "/")


def portable_path(path: str) -> str:
    """Spell a path as reports do: with `/`, and as text even where its bytes are none."""
    return readable_text(path.replace(os.sep, "/"))


def readable_text(text: str) -> str:
    """A text that any file can hold: what is no character, in paths or in a script's strings, is replaced."""
    return _NO_CHARACTER.sub("\N{REPLACEMENT CHARACTER}", text)


def project_directory(script: Script) -> Path:
    """The directory that a script's imports start from; behind a link, as for Python itself."""
    return script.directory if script.path is None else Path(os.path.realpath(script.path)).parent


def read_siblings(script: Script) -> Callable[[str], bytes | None]:
    """Make the function by which the core reads the project's other files.

    Args:
        script: the one whose directory they are looked up in; behind a link, as Python itself does it.

    Returns:
        A function from a path relative to that directory (`net.py`, `models/resnet.py`) to the file's bytes;
        None where there is no regular, readable file.
    """
    directory = project_directory(script)

    def read_sibling(relative: str) -> bytes | None:
        path = directory / relative
        try:
            # A named pipe called net.py would keep us waiting for ever.
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
    """Tell whether `--output` names a directory: one that exists, or one that is spelled with a slash at its end."""
    separators = tuple(separator for separator in (os.sep, os.altsep) if separator)
    return output.endswith(separators) or _is_directory(Path(output))


def instrumented_path(script: Script, output: str | None) -> Path | None:
    """Decide where an instrumented script goes; None for standard output.

    Without `output` that is `instrumented_<name>` beside the script, and standard output for standard input.
    In a directory given as `output` it has the same name.

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

    Without `output` it goes beside the script, under the name the source comment records. That is the script
    itself where it was instrumented in place. Only the last part of the recorded path counts: what a file says
    never leads out of its own directory.

    Args:
        script: the instrumented script.
        recorded_source: the path of the original as the source comment records it.
        output: a file, a directory, or `-`.

    Raises:
        UnnamedOriginalError: the recorded name is not one for a file.
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
    except UnicodeEncodeError:  # halves of characters, which a string of JSON may hold
        return False
    return name not in ("", "..") and "\0" not in name


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name too long, or no name at all
        return False


def is_same_file(first: Path, second: Path) -> bool:
    """Tell whether two paths lead to one file, through links too, and through folders that are yet to be made."""
    try:
        return first.samefile(second)
    except OSError:
        return os.path.realpath(first) == os.path.realpath(second)
    except ValueError:
        return False


def read_existing(target: Path) -> bytes | None:
    """Read what a write to `target` would replace; None where it replaces nothing (no file, a device, a pipe).

    Raises:
        UnwritableOutputError: it cannot be read, so that nothing can be said for replacing it.
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
    """Write one result where it belongs, or refuse to.

    Args:
        script: what it was made from; a new file gets this one's mode bits.
        writing: what is to be written, and where.
        taken: the files this run has written, by real path, each with the script it came from; added to.
        reason_to_keep: tells for the bytes of a file in the way why they should stay ("was not written by
            instrument"); None where they are this tool's own to replace.

    Returns:
        Whether anything had to be written: False where the very bytes are there already.

    Raises:
        OutputLeadsOutError: a link leads to where the user has not said.
        OutputIsSourceError: the target is the script, and that is not asked for.
        OutputExistsError: the target is there and not to be replaced.
        OutputClashError: another script of this run was written there.
        ChangedMeanwhileError: the target is the script, which somebody has changed since it was read.
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
    """Raise unless the user asked for `target` to be replaced, or it is this tool's own."""
    if writing.force:
        return
    if not writing.in_place:
        if (reason := reason_to_keep(existing)) is not None:
            raise OutputExistsError(f"{reason}; choose another -o, or overwrite it with --force", path=str(target))
    elif writing.replaces not in (None, existing):
        raise ChangedMeanwhileError(
            "was changed while it was being processed, and was left alone; run the command again", path=str(target)
        )
    # Replacing a file asks for rights on its directory only; a write-protected script is to stay as it is.
    elif not os.access(target, os.W_OK):
        raise UnwritableOutputError(
            "is write-protected; make it writable, or overwrite it with --force", path=str(target)
        )


def write_stdout(content: bytes) -> None:
    """Write exact bytes to standard output, now.

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
    """Writes to a file, and tells in this tool's words what the operating system refuses: that, and no other error."""

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
    """Give standard output for exact bytes, which are on their way when the block is left.

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
    """Put `content` at `target`, whole or not at all.

    Missing parent directories are made. A link is followed and stays, unless it leads out of the directory `within`.
    An existing file keeps its mode bits (and its owner, as far as we may); a new one gets those of `mode_of`. What is
    no regular file (`/dev/null`, a named pipe) is written to, never replaced.

    Raises:
        OutputLeadsOutError: a link leads out of `within`, or, where the user named the file (None), to nothing.
        UnwritableOutputError: the operating system refuses; `target` is as it was.
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
    """Give a file to write to, which becomes `target` when all is written, and vanishes if that fails.

    Raises:
        OutputLeadsOutError: `target` is a link to nothing, elsewhere.
        UnwritableOutputError: the operating system refuses; `target` is as it was.
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
    # Not tempfile: its files are 0600, and a new file is to have what the user's umask says.
    return real.with_name(f".instrument-{os.urandom(6).hex()}.tmp")


def _replace(real: Path, content: bytes, mode: int | None, status: os.stat_result | None) -> None:
    """Write `content` to a file of another name beside `real`, then give it that name."""
    temporary = _temporary_name(real)
    try:
        with temporary.open("xb") as file:
            file.write(content)
        if status is not None and hasattr(os, "chown"):
            with contextlib.suppress(OSError):  # only root may give files away
                os.chown(temporary, status.st_uid, status.st_gid)
        if mode is not None:
            temporary.chmod(mode)
        os.replace(temporary, real)  # noqa: PTH105 - atomic, and one name to make fail in tests
    except BaseException:  # Ctrl-C too leaves nothing behind
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
    """Say in the operating system's words what went wrong, without the number and the path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def unwritable(target: Path, error: Exception) -> UnwritableOutputError:
    """What to say where the operating system refuses to write a file."""
    return UnwritableOutputError(
        f"cannot be written ({describe_os_error(error)}); choose another place with -o", path=str(target)
    )


def _directory_given(argument: str) -> InstrumentError:
    return DirectoryGivenError(
        f"is a directory; name the scripts in it, such as {argument.rstrip('/') or '/'}/*.py", path=argument
    )


def missing_file(shown: str) -> MissingFileError:
    """The error that says that nothing is at a path, and what else it may have meant."""
    return MissingFileError(f"no such file; {_nearest_name(Path(shown))}", path=shown)


def _nearest_name(path: Path) -> str:
    """Suggest what a path that is not there may have meant."""
    if os.path.islink(path):  # noqa: PTH114 - no name makes it raise
        return "it is a link to nothing"
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except (OSError, ValueError):
        return f"there is no directory {path.parent} either"
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.75)
    return f"did you mean {path.parent / near[0]}?" if near else "check the path"
