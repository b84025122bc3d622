"""Scripts, notebooks and trees from somebody else: one line for what is wrong, and nothing written elsewhere.

`make fuzz` takes 2,000 files; otherwise INSTRUMENT_EXAMPLES says how many.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from instrumentor.cli import app
from instrumentor.output.mirror import MANIFEST
from instrumentor.paths.file_state import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links as POSIX has them")

EXAMPLES = int(os.environ.get("INSTRUMENT_EXAMPLES", "60"))
MODEL = b"import torch\nfrom torch import nn\nmodel = nn.Linear(2, 2)\nmodel(torch.ones(1, 2))\n"
NOTEBOOK = json.dumps(
    {
        "cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "source": MODEL.decode().splitlines(True)}],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    },
    indent=1,
).encode()
STEERING = "\x1b]0;owned\x07\x1b[31mred\n\x9b2J\u202e"


def run(*arguments: str) -> tuple[int, str, str]:
    """The exit code and what was printed; an error that is none of the command's own is raised."""
    outcome = CliRunner().invoke(app, [*arguments, "--no-cache"])
    if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
        raise outcome.exception
    return outcome.exit_code, outcome.stdout, outcome.stderr


@contextlib.contextmanager
def repository() -> Iterator[Path]:
    """An empty repository, the current folder meanwhile; gives the folder around it."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        around = Path(folder).resolve()
        (around / "repo").mkdir()
        os.chdir(around / "repo")
        try:
            yield around
        finally:
            os.chdir(here)


def outside(around: Path) -> dict[str, bytes | None]:
    """What lies around the repository."""
    found = {}
    for path in around.rglob("*"):
        if not path.is_relative_to(around / "repo"):
            found[str(path)] = path.read_bytes() if path.is_file() else None
    return found


def instrumented(name: str, content: bytes = MODEL) -> bytes:
    """What `instrument` makes of a file; the repository is as it was."""
    Path(name).write_bytes(content)
    target = f"made_{name}"
    assert run(name, "-o", target)[0] == 0
    made = Path(target).read_bytes()
    Path(target).unlink()
    Path(name).unlink()
    return made


def claims(source: str) -> None:
    """Put an instrumented script into the repository that says that its original is `source`."""
    made = instrumented("orig.py")
    Path("inst.py").write_bytes(made.replace(b'source="orig.py"', b"source=" + json.dumps(source).encode()))


TARGETS = ["../home/new/authorized_keys", "../home/old.py", "/proc/self/nowhere/x.py"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("link", "options"),
    [
        pytest.param("link.py", ["--revert", "."], id="a revert of a tree"),
        pytest.param("link.py", ["--revert", "inst.py"], id="a revert of a script"),
        pytest.param("link.py", ["--revert", "inst.py", "-o", "./"], id="a revert into a directory"),
        pytest.param("link.py", ["--revert", ".", "-f"], id="a revert by force"),
        pytest.param("out/link.py", ["--revert", "inst.py", "-o", "out/"], id="a revert into another directory"),
        pytest.param("instrumented_model.py", ["model.py", "-f"], id="the default output"),
        pytest.param("instrumented_model.py", [".", "-f"], id="the default outputs of a tree"),
        pytest.param("out/instrumented_model.py", ["model.py", "-o", "out/", "-f"], id="an output in a directory"),
        pytest.param("out/model.py", [".", "-o", "out", "-f"], id="a mirror"),
        pytest.param("out/plain.py", [".", "-o", "out", "-f"], id="a copy in a mirror"),
        pytest.param("out/.instrument-mirror.json", [".", "-o", "out"], id="the manifest of a mirror"),
        pytest.param("r.json.partial", ["model.py", "--check", "--report", "r.json"], id="the journal of a report"),
    ],
)
def test_nothing_is_written_through_a_link_that_leads_out(link: str, options: list[str], target: str) -> None:
    with repository() as around:
        claims("link.py")
        Path("model.py").write_bytes(MODEL)
        Path("plain.py").write_bytes(b"print()\n")
        (around / "home").mkdir()
        (around / "home" / "old.py").write_bytes(b"precious\n")
        Path("out").mkdir()
        Path(link).symlink_to(
            os.path.relpath(around / "repo" / target, Path(link).parent) if target[0] == "." else target
        )
        before = outside(around)
        code, _, err = run(*options)
        assert outside(around) == before
        assert code == 2
        said = [line for line in err.splitlines() if "points outside" in line]
        assert len(said) == 1, err
        assert said[0].startswith(f"{link}: ")


@pytest.mark.parametrize("options", [["--in-place"], ["--revert"]])
def test_a_script_in_a_tree_is_not_changed_behind_a_link(options: list[str]) -> None:
    with repository() as around:
        made = instrumented("orig.py").replace(b'"orig.py"', b'"link.py"')
        (around / "other.py").write_bytes(MODEL if "--in-place" in options else made)
        Path("link.py").symlink_to("../other.py")
        before = outside(around)
        code, _, err = run(".", *options)
        assert (code, outside(around)) == (2, before)
        assert "link.py: points outside ." in err
        assert run("link.py", *options)[0] == 0  # Named, it is meant.
        assert outside(around) != before


@pytest.mark.parametrize("name", ["report.html", "out.py"])
def test_a_link_to_nothing_that_is_named_stays_in_its_directory(name: str) -> None:
    with repository() as around:
        Path("model.py").write_bytes(MODEL)
        Path(name).symlink_to("../made")
        code, _, err = run(
            "model.py", *(["--check", "--report", name] if "." in name[4:] and name[0] == "r" else ["-o", name])
        )
        assert code == 2
        assert f"{name}: points outside ." in err
        assert not (around / "made").exists()


def test_a_tree_of_an_entry_is_not_put_behind_a_link() -> None:
    with repository() as around:
        Path("model.py").write_bytes(MODEL)
        (around / "home").mkdir()
        Path("instrumented_model").symlink_to("../home")
        code, _, err = run("model.py", "--entry")
        assert (code, list((around / "home").iterdir())) == (2, [])
        assert err.splitlines()[0].startswith("instrumented_model: points outside .")


@pytest.mark.parametrize("key", ["../../home/old.py", "link/old.py", "/home/old.py"])
def test_a_manifest_lists_nothing_outside_of_its_mirror(key: str) -> None:
    with repository() as around:
        (around / "home").mkdir()
        (around / "home" / "old.py").write_bytes(b"precious\n")
        Path("src").mkdir()
        Path("src", "model.py").write_bytes(MODEL)
        Path("out").mkdir()
        Path("out", "link").symlink_to("../../home")
        digest = digest_of(b"precious\n").hex()
        manifest = {"version": 1, "files": {key: digest}, "roots": [os.path.realpath("src")]}
        Path("out", MANIFEST.format("")).write_bytes(msgspec.json.encode(manifest))
        assert run("src", "-o", "out")[0] == 0
        assert (around / "home" / "old.py").read_bytes() == b"precious\n"


@pytest.mark.parametrize(
    "source", ["../up.py", "/tmp/up.py", "..", ".", "", "a/../../up.py", "x\0y.py", "\ud800.py", STEERING, "x" * 300]
)
def test_an_original_is_a_file_beside_the_script(source: str) -> None:
    with repository() as around:
        claims(source)
        before = outside(around)
        code, out, err = run("--revert", "inst.py")
        assert code in (0, 2)
        assert outside(around) == before
        check_printed(out, err)
        assert len(err.splitlines()) == 1


def check_printed(*texts: str) -> None:
    """Nothing in what is printed steers a terminal."""
    for text in texts:
        assert all(line.replace("\t", "").isprintable() for line in text.split("\n")), text


@pytest.mark.parametrize(
    "options",
    [
        ["--check"],
        ["--check", "--verbose"],
        ["--explain"],
        ["--explain", "--verbose"],
        ["--statistics"],
        ["--in-place"],
        ["--revert"],
        ["--check", "--format", "json"],
        ["--check", "--format", "github"],
    ],
)
def test_names_reach_a_terminal_as_text(options: list[str]) -> None:
    with repository():
        name = STEERING.replace("/", "") + ".py"
        Path(name).write_bytes(MODEL)
        Path("broken" + name).write_bytes(b"from torch import nn\nm = nn.Linear(1, 1\n" + STEERING.encode())
        Path("deep").mkdir()
        Path("deep", name).write_bytes(b"# coding: " + STEERING.split("\n")[0].encode() + b"\n" + MODEL)
        Path("text.py").write_text(f"from torch import nn\nmodels = {{}}\nmodels[{STEERING!r}] = nn.Linear(1, 1)\n")
        code, out, err = run(".", *options)
        assert code in (0, 1, 2)
        check_printed(out, err)


def changed(content: bytes) -> st.SearchStrategy[bytes]:
    """`content` with some of its bytes taken out, repeated or replaced."""
    pieces = [
        b"",
        b"\x00",
        b"\xff",
        b"\n",
        b"\r",
        b"(" * 300,
        b'"',
        b"{",
        b"\\ud800",
        b"9" * 5000,
        b"[" * 3000,
        b"+",
        b"0",
    ]
    pieces += [
        b"1:0-999999999,",
        b"+999999999,",
        b"+1,+1,",
        b"json:",
        b"../",
        b"# instrument: format=1 ",
        b"\xe2\x80\xae",
    ]
    change = st.tuples(st.integers(0, len(content)), st.integers(0, 12), st.sampled_from(pieces))
    # What tells how to undo stands near the end.
    near_end = st.tuples(
        st.integers(max(0, len(content) - 120), len(content)), st.integers(0, 6), st.sampled_from(pieces)
    )

    def apply(changes: list[tuple[int, int, bytes]]) -> bytes:
        result = content
        for at, length, piece in changes:
            result = result[:at] + piece + result[at + length :]
        return result

    return st.lists(st.one_of(change, near_end), min_size=1, max_size=4).map(apply)


@given(st.data())
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="INSTRUMENT_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
def test_any_change_to_a_file_is_survived(data: st.DataObject) -> None:
    with repository() as around:
        seeds = {"a.py": instrumented("a.py"), "b.ipynb": instrumented("b.ipynb", NOTEBOOK)}
        name = data.draw(st.sampled_from([*seeds, "pyproject.toml", ".gitignore"]))
        if name in seeds:
            Path(name).write_bytes(data.draw(changed(seeds[name])))
        else:
            settings_ = b'[tool.instrumentor]\nexclude = ["a*b", "[x"]\nlogdir = "x"\n'
            Path(name).write_bytes(data.draw(changed(settings_ if name[0] == "p" else b"*.log\n!a.py\n/b\n")))
            Path("a.py").write_bytes(MODEL)
        before = outside(around)
        for options in (["--diff"], ["--check", "--explain"], ["-o", "out/"], ["--revert", "--diff"], ["--revert"]):
            code, out, err = run(".", *options)
            assert code in (0, 1, 2)
            check_printed(err, *([] if "--diff" in options else [out]))
            assert "internal error" not in err
            assert outside(around) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes as POSIX has them")
def test_pipes_in_a_tree_keep_nobody_waiting() -> None:
    with repository():
        Path("model.py").write_bytes(MODEL)
        for name in (".gitignore", "pyproject.toml", "net.py", "b.ipynb"):
            os.mkfifo(name)
        Path("loop").symlink_to(".")
        Path("self.py").symlink_to("self.py")
        code, _, err = run(".", "--check")
        assert code == 1, err


def test_what_is_too_large_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with repository():
        Path("large.py").write_bytes(b"from torch import nn\nm = nn.Linear(1, 1)\nx = '" + b"x" * 8_000_000 + b"'\n")
        with Path("huge.py").open("wb") as file:
            file.truncate(10**9)
        code, _, err = run("large.py", "huge.py", "--check")
        assert code == 2
        large, huge, *_ = sorted(line for line in err.splitlines() if ".py: " in line)[::-1]
        assert large.startswith("large.py: longer than 8,000,000 characters")
        assert huge.startswith("huge.py: is larger than 64 MB")


def test_a_pattern_that_takes_for_ever_is_passed_over() -> None:
    with repository():
        Path(".gitignore").write_text("a*a*a*a*a*a*a*a*a*a*a*a*b\n" + "**/" * 30 + "x\n")
        Path("a" * 200 + ".py").write_bytes(MODEL)
        Path(*"abcdefghij").mkdir(parents=True)
        assert run(".", "--check")[0] == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b'"site":0', b'"site":99', id="a site that is not there"),
        pytest.param(b'"site":0', b'"site":-1', id="a site before the first"),
        pytest.param(b"@@ -", b"@@ -" + b"9" * 5000, id="a line number of thousands of digits"),
        pytest.param(b'"decision":"wrap"', b'"decision":"\\"><script>"', id="a decision that is markup"),
        pytest.param(b'"target":"model"', b'"target":"\\"><script>alert(1)</script>"', id="a name that is markup"),
        pytest.param(b'"path":"a.py"', b'"path":"<img src=x onerror=alert(1)>/\\"\'"', id="a path that is markup"),
        pytest.param(b'"files": [', b'"files": [' + b"[" * 100_000, id="deep nesting"),
        pytest.param(b'"files": [', b'"files": [\xff', id="no text"),
    ],
)
@pytest.mark.parametrize("suffix", ["html", "md", "sarif", "json"])
def test_a_report_from_somebody_else_is_data(old: bytes, new: bytes, suffix: str) -> None:
    with repository():
        Path("a.py").write_bytes(MODEL)
        assert run("a.py", "--check", "--report", "r.json")[0] == 1
        report = Path("r.json").read_bytes()
        assert old in report
        Path("r.json").write_bytes(report.replace(old, new))
        code, out, err = run("--merge-reports", "r.json", "--report", f"merged.{suffix}")
        assert (code, out) in ((0, ""), (2, ""))
        assert len(err.splitlines()) == (code == 2)
        check_printed(err)
        if suffix == "html" and code == 0:
            page = Path("merged.html").read_text()
            assert "<script>alert" not in page
            assert "<img" not in page


def test_a_page_shows_what_hides_code_from_a_reviewer() -> None:
    with repository():
        Path("a.py").write_bytes(MODEL + "x = 1  # \u202e\u2066 hidden\n".encode())
        run("a.py", "--check", "--report", "r.html")
        page = Path("r.html").read_text()
        assert "\u202e" not in page
        assert r"\u202e\u2066 hidden" in page
