"""Reading and writing scripts: what is asked for, whole or not at all, and nothing else."""

from __future__ import annotations

import io
import os
import stat
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from instrumentor.errors import (
    DirectoryGivenError,
    InstrumentError,
    MissingFileError,
    OutputClashError,
    OutputExistsError,
    OutputIsSourceError,
    UnnamedOriginalError,
    UnreadableFileError,
    UnwritableOutputError,
)
from instrumentor.paths import files
from instrumentor.paths.files import Script, Writing

FULL = Path("/dev/full")

needs_posix = pytest.mark.skipif(os.name != "posix", reason="modes and links as POSIX has them")


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def make_script(name: str = "mnist.py", content: bytes = b"original\n") -> Script:
    Path(name).write_bytes(content)
    return files.read_script(name)


def listing(directory: str = ".") -> list[str]:
    return sorted(path.name for path in Path(directory).iterdir())


def mode_of(path: str | Path) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def refusal_of_null() -> str:
    """What Python says of a path with a null byte, which changes with its version."""
    with pytest.raises(ValueError, match="null") as caught:
        os.stat("a\0b")  # noqa: PTH116  As it is, without what pathlib makes of it.
    return str(caught.value)


def raise_os_error(*_: object) -> NoReturn:
    raise OSError(28, "No space left on device")


def write_half(out: files.Output, error: Exception) -> NoReturn:
    out.write(b"half")
    raise error


def always_ours(existing: bytes) -> None:
    return None


def never_ours(existing: bytes) -> str:
    return "exists and was not written by instrument"


class FakeStdin:
    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def test_a_script_is_read_byte_by_byte() -> None:
    content = b"\xef\xbb\xbfx = 1\r\ny = 2\x0c\r"
    script = make_script("a.py", content)
    assert script == Script("a.py", "a.py", content, Path("a.py"), Path())


def test_standard_input_is_read_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", FakeStdin(b"x\r\n\xff"))
    assert files.read_script("-") == Script("<stdin>", "<stdin>", b"x\r\n\xff", None, Path())


def test_standard_input_can_have_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", FakeStdin(b""))
    script = files.read_script("-", stdin_name="src/a.py")
    assert (script.shown, script.name, script.directory) == ("src/a.py", "src/a.py", Path("src"))


def test_no_standard_input_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UnreadableFileError, match=r"^<stdin>: there is no standard input; name a file$"):
        files.read_script("-")


@pytest.mark.parametrize(
    ("typed", "recorded"),
    [
        pytest.param("mnist.py", "mnist.py", id="a name stays"),
        pytest.param("./mnist.py", "./mnist.py", id="a dot stays"),
        pytest.param("../zoo/mnist.py", "../zoo/mnist.py", id="a relative path stays"),
        pytest.param(
            str(Path("/home/me/mnist.py").absolute()), "mnist.py", id="an absolute path tells no more than the name"
        ),
        pytest.param("<stdin>", "<stdin>", id="standard input"),
    ],
)
def test_recorded_name(typed: str, recorded: str) -> None:
    assert files.recorded_name(typed) == recorded


@pytest.mark.parametrize(
    ("argument", "error", "message"),
    [
        pytest.param("nope.py", MissingFileError, "nope.py: no such file; check the path", id="missing"),
        pytest.param(
            "mnst.py", MissingFileError, "mnst.py: no such file; did you mean mnist.py?", id="missing, with a neighbour"
        ),
        pytest.param(
            "no/mnist.py",
            MissingFileError,
            "no/mnist.py: no such file; there is no directory no either",
            id="missing with its directory",
        ),
        pytest.param(
            "mnist.py/x.py",
            MissingFileError,
            "mnist.py/x.py: no such file; there is no directory mnist.py either",
            id="below a file",
        ),
        pytest.param(
            "src", DirectoryGivenError, "src: is a directory; name the scripts in it, such as src/*.py", id="directory"
        ),
        pytest.param(
            "src/",
            DirectoryGivenError,
            "src/: is a directory; name the scripts in it, such as src/*.py",
            id="directory with a slash",
        ),
        pytest.param(
            "a\0b",
            UnreadableFileError,
            "a\0b: cannot be read (embedded null byte); make it readable or name another file",
            id="no path at all",
        ),
    ],
)
def test_what_cannot_be_read(argument: str, error: type[InstrumentError], message: str) -> None:
    make_script()
    Path("src").mkdir()
    with pytest.raises(error) as caught:
        files.read_script(argument)
    assert str(caught.value) == message


def test_a_script_that_may_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    make_script()
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UnreadableFileError, match=r"^mnist.py: cannot be read \(Permission denied\); make it readable"):
        files.read_script("mnist.py")


def test_siblings_are_read_relative_to_the_script() -> None:
    Path("src/models").mkdir(parents=True)
    Path("src/net.py").write_bytes(b"net")
    Path("src/models/resnet.py").write_bytes(b"resnet")
    read = files.read_siblings(make_script("src/train.py"))
    assert read("net.py") == b"net"
    assert read("models/resnet.py") == b"resnet"
    assert read("gone.py") is None
    assert read("models") is None
    assert read("a\0b") is None


@needs_posix
def test_siblings_are_looked_up_behind_a_link_as_python_does() -> None:
    Path("src").mkdir()
    make_script("src/train.py")
    Path("src/net.py").write_bytes(b"net")
    Path("train.py").symlink_to("src/train.py")
    assert files.read_siblings(files.read_script("train.py"))("net.py") == b"net"


@needs_posix
def test_a_pipe_is_no_sibling() -> None:
    os.mkfifo("net.py")
    assert files.read_siblings(make_script())("net.py") is None


@pytest.mark.parametrize(
    ("typed", "output", "expected"),
    [
        pytest.param("mnist.py", None, "instrumented_mnist.py", id="beside the script"),
        pytest.param("src/mnist.py", None, "src/instrumented_mnist.py", id="beside the script, elsewhere"),
        pytest.param("train", None, "instrumented_train", id="a script without a suffix"),
        pytest.param("mnist.py", "out.py", "out.py", id="a file"),
        pytest.param("mnist.py", "new/", "new/instrumented_mnist.py", id="a directory to be made"),
        pytest.param("src/mnist.py", "src", "src/instrumented_mnist.py", id="a directory that exists"),
        pytest.param("mnist.py", "-", None, id="standard output"),
    ],
)
def test_where_an_instrumented_script_goes(typed: str, output: str | None, expected: str | None) -> None:
    Path("src").mkdir()
    found = files.instrumented_path(make_script(typed), output)
    assert found == (None if expected is None else Path(expected))


def test_where_standard_input_goes() -> None:
    unnamed = Script("<stdin>", "<stdin>", b"", None, Path())
    named = Script("a.py", "a.py", b"", None, Path())
    assert files.instrumented_path(unnamed, None) is None
    assert files.instrumented_path(unnamed, "b.py") == Path("b.py")
    assert files.instrumented_path(named, "new/") == Path("new/instrumented_a.py")
    with pytest.raises(
        UnnamedOriginalError, match=r"^<stdin>: standard input has no file name to write into new/; add"
    ):
        files.instrumented_path(unnamed, "new/")


@pytest.mark.parametrize(
    ("recorded", "output", "expected"),
    [
        pytest.param("mnist.py", None, "src/mnist.py", id="beside the instrumented one"),
        pytest.param("zoo/mnist.py", None, "src/mnist.py", id="beside it, whatever its directory was"),
        pytest.param("../../etc/passwd", None, "src/passwd", id="never out of its directory"),
        pytest.param("/etc/passwd", None, "src/passwd", id="never to an absolute path"),
        pytest.param("mnist.py", "old.py", "old.py", id="a file"),
        pytest.param("<stdin>", "old.py", "old.py", id="a file for what came from standard input"),
        pytest.param("mnist.py", "old/", "old/mnist.py", id="a directory"),
        pytest.param("mnist.py", "-", None, id="standard output"),
    ],
)
def test_where_an_original_goes(recorded: str, output: str | None, expected: str | None) -> None:
    Path("src").mkdir()
    found = files.original_path(make_script("src/instrumented_mnist.py"), recorded, output)
    assert found == (None if expected is None else Path(expected))


@pytest.mark.parametrize("recorded", ["<stdin>", "", "..", "a/..", "/", "a\0b", "\ud800.py"])
def test_an_original_without_a_name_needs_one(recorded: str) -> None:
    with pytest.raises(UnnamedOriginalError, match=r"is not a file name; use -o to say where it goes$"):
        files.original_path(make_script(), recorded, None)


def test_directories_are_told_by_a_slash_or_by_being_there() -> None:
    Path("there").mkdir()
    assert files.is_directory_output("there")
    assert files.is_directory_output("new/")
    assert not files.is_directory_output("new")


def test_a_new_file_has_the_bytes_and_the_directories_it_needs() -> None:
    files.write_file(Path("a/b/c.py"), b"\xffx\r\n")
    assert Path("a/b/c.py").read_bytes() == b"\xffx\r\n"
    assert listing("a/b") == ["c.py"]


@needs_posix
def test_a_new_file_takes_the_mode_of_its_source() -> None:
    make_script()
    Path("mnist.py").chmod(0o750)
    files.write_file(Path("out.py"), b"x", mode_of=Path("mnist.py"))
    assert mode_of("out.py") == 0o750


@needs_posix
def test_a_new_file_without_a_source_follows_the_umask() -> None:
    before = os.umask(0o027)
    try:
        files.write_file(Path("out.py"), b"x")
    finally:
        os.umask(before)
    assert mode_of("out.py") == 0o640


@needs_posix
def test_an_existing_file_keeps_its_mode() -> None:
    make_script("source.py")
    make_script("out.py")
    Path("out.py").chmod(0o700)
    files.write_file(Path("out.py"), b"x", mode_of=Path("source.py"))
    assert mode_of("out.py") == 0o700
    assert Path("out.py").read_bytes() == b"x"


@needs_posix
def test_a_link_is_followed_and_stays() -> None:
    Path("real").mkdir()
    make_script("real/a.py")
    Path("link.py").symlink_to("real/a.py")
    files.write_file(Path("link.py"), b"new")
    assert Path("link.py").is_symlink()
    assert Path("real/a.py").read_bytes() == b"new"
    assert listing("real") == ["a.py"]


@needs_posix
def test_a_link_to_nothing_gets_its_file() -> None:
    Path("link.py").symlink_to("new/a.py")
    files.write_file(Path("link.py"), b"new")
    assert Path("link.py").is_symlink()
    assert Path("new/a.py").read_bytes() == b"new"


@needs_posix
def test_a_link_to_itself_is_an_error_and_stays() -> None:
    Path("link.py").symlink_to("link.py")
    with pytest.raises(UnwritableOutputError):
        files.write_file(Path("link.py"), b"new")
    assert Path("link.py").is_symlink()


@needs_posix
def test_a_device_is_written_to_and_never_replaced() -> None:
    files.write_file(Path(os.devnull), b"x")
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        pytest.param("mnist.py/out.py", "Not a directory", id="the parent is a file"),
        pytest.param("src", "Is a directory", id="the target is a directory"),
        pytest.param("a\0b", refusal_of_null(), id="no path at all"),
        pytest.param("x" * 300, "File name too long", id="too long a name"),
    ],
)
@needs_posix
def test_what_cannot_be_written(target: str, reason: str) -> None:
    make_script()
    Path("src").mkdir()
    with pytest.raises(UnwritableOutputError) as caught:
        files.write_file(Path(target), b"x")
    assert str(caught.value) == f"{target}: cannot be written ({reason}); choose another place with -o"
    assert listing() == ["mnist.py", "src"]


def test_a_failing_rename_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    make_script()
    monkeypatch.setattr(os, "replace", raise_os_error)
    with pytest.raises(UnwritableOutputError, match=r"^mnist.py: cannot be written \(No space left on device\)"):
        files.write_file(Path("mnist.py"), b"new")
    assert Path("mnist.py").read_bytes() == b"original\n"
    assert listing() == ["mnist.py"]


def test_an_interrupt_while_writing_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    make_script()
    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.write_file(Path("mnist.py"), b"new")
    assert Path("mnist.py").read_bytes() == b"original\n"
    assert listing() == ["mnist.py"]


def test_write_script_tells_new_from_there_already() -> None:
    script = make_script()
    writing = Writing(Path("out.py"), b"new")
    assert files.write_script(script, writing, taken={}, reason_to_keep=never_ours)
    before = Path("out.py").stat().st_mtime_ns
    assert not files.write_script(script, writing, taken={}, reason_to_keep=never_ours)
    assert Path("out.py").stat().st_mtime_ns == before


def test_write_script_refuses_what_is_not_ours() -> None:
    script = make_script()
    Path("out.py").write_bytes(b"mine")
    with pytest.raises(OutputExistsError) as caught:
        files.write_script(script, Writing(Path("out.py"), b"new"), taken={}, reason_to_keep=never_ours)
    assert str(caught.value) == (
        "out.py: exists and was not written by instrument; choose another -o, or overwrite it with --force"
    )
    assert Path("out.py").read_bytes() == b"mine"


@pytest.mark.parametrize("force", [True, False])
def test_write_script_replaces_what_is_ours_or_forced(force: bool) -> None:
    script = make_script()
    Path("out.py").write_bytes(b"older")
    reason = never_ours if force else always_ours
    files.write_script(script, Writing(Path("out.py"), b"new", force=force), taken={}, reason_to_keep=reason)
    assert Path("out.py").read_bytes() == b"new"


@needs_posix
@pytest.mark.parametrize("make_alias", [os.symlink, os.link])
def test_write_script_knows_the_source_under_another_name(make_alias: object) -> None:
    script = make_script()
    assert callable(make_alias)
    make_alias("mnist.py", "alias.py")
    with pytest.raises(OutputIsSourceError, match=r"^mnist.py: the output would replace the script itself; choose"):
        files.write_script(script, Writing(Path("alias.py"), b"new", force=True), taken={}, reason_to_keep=always_ours)
    assert Path("mnist.py").read_bytes() == b"original\n"


def test_write_script_gives_one_file_to_one_script() -> None:
    taken: dict[str, str] = {}
    Path("b").mkdir()
    writing = Writing(Path("out.py"), b"new", force=True)
    files.write_script(make_script("a.py"), writing, taken=taken, reason_to_keep=always_ours)
    with pytest.raises(OutputClashError, match=r"^b/a.py: would be written to out.py, like a.py; write them one at"):
        files.write_script(make_script("b/a.py"), writing, taken=taken, reason_to_keep=always_ours)


def test_a_write_protected_script_is_not_replaced_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    # Root may write everywhere, so that a mode bit would not do.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    script = make_script()
    protected = Writing(script.path, b"new", in_place=True)
    with pytest.raises(UnwritableOutputError, match=r"^mnist.py: is write-protected; make it writable, or overwrite"):
        files.write_script(script, protected, taken={}, reason_to_keep=always_ours)
    assert Path("mnist.py").read_bytes() == b"original\n"
    forced = Writing(script.path, b"new", in_place=True, force=True)
    assert files.write_script(script, forced, taken={}, reason_to_keep=always_ours)


def test_standard_output_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        write = staticmethod(raise_os_error)

    class Stdout:
        buffer = Full()

    monkeypatch.setattr(sys, "stdout", Stdout())
    with pytest.raises(UnwritableOutputError, match=r"^standard output: cannot be written"):
        files.write_stdout(b"x")


@pytest.mark.parametrize("error", [ValueError("invalid literal"), OSError(5, "Input/output error")])
@pytest.mark.parametrize("is_there", [False, True])
def test_an_error_of_who_writes_a_file_is_told_as_it_is(error: Exception, is_there: bool) -> None:
    if is_there:
        Path("report.json").write_bytes(b"before")
    with pytest.raises(type(error)) as caught, files.open_whole(Path("report.json")) as out:
        write_half(out, error)
    assert caught.value is error
    assert listing() == (["report.json"] if is_there else [])
    assert not is_there or Path("report.json").read_bytes() == b"before"


def test_so_it_is_on_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    error = OSError(5, "Input/output error")
    with pytest.raises(OSError, match="Input/output error") as caught, files.open_stdout() as out:
        write_half(out, error)
    assert caught.value is error


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")
def test_a_file_that_cannot_be_written_on_is_told() -> None:
    message = r"^/dev/full: cannot be written \(No space left on device\)"
    with pytest.raises(UnwritableOutputError, match=message), files.open_whole(FULL) as out:
        out.write(b"x" * 1_000_000)
    with pytest.raises(UnwritableOutputError, match=message), files.open_whole(FULL) as out:
        out.write(b"x")  # goes out when the file is closed
