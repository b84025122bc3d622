"""Whole trees: into a mirror, in place and back, as a patch, in parts, and after an interruption."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from typer.testing import CliRunner

from instrumentor import command
from instrumentor.cli import app
from instrumentor.engine import work
from instrumentor.report.kinds import KINDS
from tests.python_process.run_python import run_python

if TYPE_CHECKING:
    from instrumentor.engine.outcome import Task

NET = (
    b"import torch.nn as nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
    b"        super().__init__()\n        self.fc = nn.Linear(2, 2)\n\n"
    b"    def forward(self, x):\n        return self.fc(x)\n"
)
FACTORY = b"from zoo.net import Net\n\n\ndef make():\n    return Net()\n\n\nSHARED = Net()\n"
MODEL = b"import torch.nn as nn\n\nmodel = nn.Linear(2, 2)\nprint(model)\n"
TRAIN = (
    b"from zoo.factory import SHARED, make\nfrom zoo.data import load\n\nmodel = make()\nmodel.train()\nprint(load())\n"
)
DATA = b"from pathlib import Path\n\n\ndef load():\n    return Path(__file__).with_name('data.txt').read_text()\n"

needs_links = pytest.mark.skipif(os.name != "posix", reason="links as POSIX has them")


class Outcome:
    def __init__(self, code: int, out: bytes, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("INSTRUMENT_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments: str, stdin: bytes = b"") -> Outcome:
    result = CliRunner().invoke(app, ["--jobs", "1", *arguments], input=stdin, prog_name="instrument")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout_bytes, result.stderr)


def write(name: str, content: bytes) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.fixture
def zoo() -> None:
    write("src/train.py", TRAIN)
    write("src/zoo/__init__.py", b"")
    write("src/zoo/net.py", NET)
    write("src/zoo/factory.py", FACTORY)
    write("src/zoo/data.py", DATA)
    write("src/zoo/data.txt", b"some text")
    write("src/weights/a.bin", b"\0" * 10)
    write("src/.git/config", b"")


def snapshot(directory: str = ".") -> dict[str, bytes]:
    root = Path(directory)
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.usefixtures("zoo")
class TestBeside:
    def test_each_script(self) -> None:
        before = snapshot()
        outcome = run("src")
        assert outcome.code == 0
        assert set(snapshot()) - set(before) == {"src/instrumented_train.py", "src/zoo/instrumented_factory.py"}
        assert outcome.err.splitlines() == [
            "src/train.py -> src/instrumented_train.py: 1 model (model, line 4)",
            "src/zoo/factory.py -> src/zoo/instrumented_factory.py: 1 model (SHARED, line 8)",
            "5 files: 2 instrumented (2 models)",
        ]

    @pytest.mark.parametrize("option", ["--cache", "--no-cache"])
    def test_a_second_run_writes_nothing(self, option: str) -> None:
        run("src", option)
        before = {path: path.stat().st_mtime_ns for path in Path("src").rglob("*")}
        outcome = run("src", option)
        assert outcome.err.splitlines()[0].endswith("1 model (model, line 4), already up to date")
        assert "2 already instrumented" in outcome.err.splitlines()[-1]
        assert {path: path.stat().st_mtime_ns for path in Path("src").rglob("*")} == before

    def test_failures_come_at_the_end_and_stop_nothing(self) -> None:
        write("src/a_bad.py", b"import torch.nn\nx = (\n")
        write("src/zoo/instrumented_factory.py", b"mine\n")
        outcome = run("src")
        assert outcome.code == 2
        assert outcome.err.splitlines()[-3] == "7 files: 1 instrumented (1 model), 2 failed:"
        assert [line.split(":")[0] for line in outcome.err.splitlines()[-2:]] == [
            "src/a_bad.py",
            "src/zoo/instrumented_factory.py",
        ]
        assert Path("src/instrumented_train.py").exists()
        assert Path("src/zoo/instrumented_factory.py").read_bytes() == b"mine\n"

    @pytest.mark.parametrize(
        ("comment", "failure"),
        [
            pytest.param(
                rb'source="\ud800.py" sha256=98752ee28d5484bdc2814fb70adb6a0b2fb31f6a9b8ee7ae81fd2fc9cf300b3b added=',
                "odd.py: the original is recorded as '\\ud800.py', which is not a file name; use -o to say where it "
                "goes",
                id="a name that is no text",
            ),
            pytest.param(
                b'source="a.py" sha256=' + b"0" * 64 + b" added=+" + b"9" * 5000,
                "odd.py: not instrumented, so there is nothing to revert",
                id="a number that is none",
            ),
        ],
    )
    def test_source_comments_that_no_run_has_written_stop_nothing(self, comment: bytes, failure: str) -> None:
        write("odd.py", b"x=1\n# instrument: format=1 " + comment + b"\n")
        run("src", "--in-place")
        outcome = run("--revert", "odd.py", "src")
        assert outcome.code == 2
        assert failure in outcome.err
        assert Path("src/train.py").read_bytes() == TRAIN


@pytest.mark.usefixtures("zoo")
class TestMirror:
    def test_runs_as_it_stands(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert run("src", "-o", "traced").code == 0
        shutil.move("src", "gone")  # nothing of the original is needed but what is linked
        for link in (Path("traced/weights"), Path("traced/zoo/data.txt")):
            target = link.readlink()
            assert target.is_absolute()
            link.unlink()
            link.symlink_to(str(target).replace("/src/", "/gone/"))
        path = os.pathsep.join(str(Path(each).resolve()) for each in sys.path if each)
        done = run_python(["train.py"], cwd=Path("traced").resolve(), env={**os.environ, "PYTHONPATH": path})
        assert (done.returncode, done.stdout) == (0, "some text\n"), done.stderr
        trace = b"".join(path.read_bytes() for path in Path("traced/proxy_trace").rglob("*.jsonl"))
        assert b'"model"' in trace
        assert b'"SHARED"' in trace  # the imports found the instrumented files

    def test_has_what_the_tree_has(self) -> None:
        before = snapshot("src")
        run("src", "-o", "traced", "--copy-all")
        assert not [path for path in Path("traced").rglob("*") if path.is_symlink()]
        after = snapshot("traced")
        assert set(after) == {name for name in before if not name.startswith(".git")} | {".instrument-mirror.json"}
        changed = {name for name in before if after.get(name, before[name]) != before[name]}
        assert changed == {"train.py", "zoo/factory.py"}
        assert snapshot("src") == before

    def test_of_what_changes_only(self) -> None:
        run("src", "-o", "traced", "--changed-only")
        assert set(snapshot("traced")) == {"train.py", "zoo/factory.py", ".instrument-mirror.json"}

    def test_of_shards_has_what_all_of_them_add(self) -> None:
        run("src", "-o", "whole")
        for shard in ("1/3", "2/3", "3/3", "1/3"):  # the first one once more: it leaves alone what the others wrote
            assert run("src", "-o", "traced", "--shard", shard).code == 0

        def without_manifests(folder: str) -> dict[str, bytes]:
            return {name: held for name, held in snapshot(folder).items() if not name.startswith(".instrument-mirror")}

        assert without_manifests("traced") == without_manifests("whole")

    def test_of_directories_of_one_name_is_refused(self) -> None:
        write("other/zoo/net.py", NET)
        outcome = run("src/zoo", "other/zoo", "-o", "traced")
        assert outcome.code == 2
        assert outcome.err == (
            "other/zoo: would be mirrored in traced/zoo, like src/zoo; write them one at a time, each with its own -o\n"
        )
        assert not Path("traced").exists()

    def test_lacks_what_cannot_be_listed_and_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        iterdir = Path.iterdir

        def refuse(folder: Path) -> Any:
            if folder == Path("src/zoo"):
                raise PermissionError(13, "Permission denied")
            return iterdir(folder)

        monkeypatch.setattr(Path, "iterdir", refuse)
        outcome = run("src", "-o", "traced")
        assert outcome.code == 2
        assert "src/zoo: cannot be listed (Permission denied); the mirror lacks its contents\n" in outcome.err
        assert Path("traced/train.py").exists()

    def test_takes_scripts_that_are_named_beside_directories(self) -> None:
        write("solo.py", MODEL)
        assert run("solo.py", "src", "-o", "traced").code == 0
        assert {"instrumented_solo.py", "train.py", "zoo/net.py"} <= set(snapshot("traced"))

    def test_of_several_directories(self) -> None:
        write("other/src2/a.py", NET)
        run("src/zoo", "other/src2", "-o", "traced")
        assert {"zoo/net.py", "src2/a.py"} <= set(snapshot("traced"))

    def test_of_directories_that_a_glob_means(self) -> None:
        write("many/a/model.py", MODEL)
        write("many/b/model.py", MODEL)
        assert run("many/*", "-o", "out").code == 0
        assert {"a/model.py", "b/model.py"} < set(snapshot("out"))

    def test_in_the_tree_itself_is_no_part_of_it(self) -> None:
        run("src", "-o", "src/traced")
        assert run("src", "-o", "src/traced").code == 0
        assert not Path("src/traced/traced").exists()

    def test_follows_the_tree_and_spares_what_was_edited(self) -> None:
        run("src", "-o", "traced")
        write("src/zoo/data.py", DATA + b"# new\n")
        write("src/zoo/factory.py", FACTORY + b"# new\n")
        assert run("src", "-o", "traced").code == 0
        assert Path("traced/zoo/data.py").read_bytes().endswith(b"# new\n")
        write("traced/zoo/data.py", b"edited\n")
        write("src/zoo/data.py", DATA + b"# newer\n")
        outcome = run("src", "-o", "traced")
        assert outcome.code == 2
        assert "traced/zoo/data.py: exists and was not written by instrument" in outcome.err
        assert Path("traced/zoo/data.py").read_bytes() == b"edited\n"
        assert run("src", "-o", "traced", "--force").code == 0
        assert Path("traced/zoo/data.py").read_bytes().endswith(b"# newer\n")

    def test_loses_what_the_tree_has_lost(self) -> None:
        write("src/net/__init__.py", NET)
        write("src/old.py", NET)
        run("src", "-o", "traced")
        run("src/zoo", "-o", "other")
        shutil.rmtree("src/net")
        Path("src/old.py").unlink()
        write("src/net.py", NET)
        write("traced/old.py", b"edited\n")
        write("other/net.py", b"mine\n")
        outcome = run("src", "-o", "traced")
        assert "traced/net/__init__.py: removed, because src/net/__init__.py is gone\n" in outcome.err
        assert not Path("traced/net").exists()  # which would be imported in place of net.py
        assert Path("traced/old.py").read_bytes() == b"edited\n"
        assert Path("traced/train.py").exists()
        run("src", "-o", "other")  # what other directories gave is not judged by this one
        assert Path("other/net.py").read_bytes() == b"mine\n"
        assert Path("other/factory.py").exists()

    @needs_links
    def test_takes_scripts_of_folders_that_had_none(self) -> None:
        write("src/late/data.txt", b"1")
        run("src", "-o", "traced")
        assert Path("traced/late").is_symlink()
        write("src/late/model.py", MODEL)
        assert run("src", "-o", "traced").code == 0
        assert b"Proxy" in Path("traced/late/model.py").read_bytes()
        assert Path("src/late/model.py").read_bytes() == MODEL
        assert Path("traced/late/data.txt").read_bytes() == b"1"

    @needs_links
    def test_a_folder_that_cannot_be_made_is_no_failure_of_the_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write("src/late/data.txt", b"1")
        run("src", "-o", "traced")
        write("src/late/model.py", MODEL)
        unlink = Path.unlink

        def refuse(path: Path, missing_ok: bool = False) -> None:
            if path == Path("traced/late"):
                raise PermissionError(13, "Permission denied")
            unlink(path, missing_ok=missing_ok)

        monkeypatch.setattr(Path, "unlink", refuse)
        outcome = run("src", "-o", "traced")
        assert outcome.code == 2
        assert (
            "failed:\ntraced/late: cannot be written (Permission denied); choose another place with -o\n" in outcome.err
        )
        assert Path("src/late/model.py").read_bytes() == MODEL

    def test_a_file_of_the_user_stays(self) -> None:
        write("traced/train.py", b"mine\n")
        assert run("src", "-o", "traced").code == 2
        assert Path("traced/train.py").read_bytes() == b"mine\n"

    def test_is_never_the_tree_itself(self) -> None:
        before = snapshot()
        outcome = run("src", "-o", "./src/")
        assert (outcome.code, snapshot()) == (2, before)
        assert "the output is the directory itself" in outcome.err


@pytest.fixture
def odd_zoo(zoo: None) -> None:
    write("src/crlf.py", TRAIN.replace(b"\n", b"\r\n"))
    write("src/mixed.py", NET.replace(b"\n\n", b"\r\n\n") + b"net = Net()\r\n")
    write("src/no_newline.py", NET + b"net = Net()")
    write("src/latin.py", b"# coding: latin-1\nname = '\xe9'\n" + NET + b"net = Net()\n")
    write("src/bom.py", b"\xef\xbb\xbf" + NET + b"net = Net()\n")
    write("src/form_feed.py", NET + b"\x0c\nnet = Net()\n")
    write("src/with blank/\xc3\xa4 \xe2\x98\x83.py".encode("latin-1").decode("utf-8"), NET + b"net = Net()\n")
    write('src/quo"te.py', NET + b"net = Net()\n")
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(NET.decode()), nbformat.v4.new_code_cell("net = Net()\nnet")]
    write("src/book.ipynb", nbformat.writes(notebook).encode())


@pytest.mark.usefixtures("odd_zoo")
class TestInPlace:
    def test_and_back_to_the_byte(self) -> None:
        before = snapshot()
        assert run("src", "--in-place").code == 0
        after = snapshot()
        assert sum(before[name] != after[name] for name in before) == 11
        assert run("src", "--in-place").code == 0
        assert snapshot() == after
        outcome = run("--revert", "src")
        assert outcome.code == 0
        assert outcome.err.splitlines()[-1] == "14 files: 11 reverted"
        assert snapshot() == before

    def test_a_patch_does_what_it_does(self) -> None:
        before = snapshot()
        patch = run("src", "--diff")
        assert patch.code == 0
        assert snapshot() == before
        Path("instrument.patch").write_bytes(patch.out)
        subprocess.run(["git", "init", "-q"], check=True)
        for options in (("--check",), ()):
            subprocess.run(["git", "apply", *options, "instrument.patch"], check=True, capture_output=True)
        shutil.rmtree(".git")
        Path("instrument.patch").unlink()
        applied = snapshot()
        for name, content in before.items():
            write(name, content)
        run("src", "--in-place")
        assert snapshot() == applied

    def test_a_patch_leaves_links_to_what_they_lead_to(self) -> None:
        Path("src/link.py").symlink_to("bom.py")
        patch = run("src", "--diff")
        assert b"src/bom.py" in patch.out
        assert b"link.py" not in patch.out
        assert (
            "src/link.py: a symbolic link, which a patch cannot change; patch the file that it points to" in patch.err
        )

    def test_what_is_edited_meanwhile_stays(self, monkeypatch: pytest.MonkeyPatch) -> None:
        process = work.process

        def edit_after(task: Task, *more: Any) -> Any:
            outcome = process(task, *more)
            if task.shown == "src/bom.py":
                write("src/bom.py", b"edited\n")
            return outcome

        monkeypatch.setattr(work, "process", edit_after)
        outcome = run("src", "--in-place")
        assert outcome.code == 2
        assert outcome.err.splitlines()[-1].startswith("src/bom.py: was changed while it was being processed")
        assert Path("src/bom.py").read_bytes() == b"edited\n"

    def test_a_patch_of_an_absolute_path_applies_here(self) -> None:
        assert b"--- a/src/bom.py\n" in run(str(Path("src").resolve()), "--diff").out


class TestSeveralNames:
    @needs_links
    def test_of_one_file_change_it_once(self) -> None:
        write("zoo/b.py", MODEL)
        Path("zoo/a.py").symlink_to("b.py")
        outcome = run("zoo", "--in-place")
        assert outcome.code == 0
        assert "zoo/b.py: done already, with zoo/a.py" in outcome.err
        assert Path("zoo/b.py").read_bytes().count(b"= Proxy.Proxy(") == 1
        assert run("--revert", "zoo").code == 0
        assert Path("zoo/b.py").read_bytes() == MODEL
        assert Path("zoo/a.py").is_symlink()

    def test_of_one_original_give_it_back_once(self) -> None:
        write("zoo/model.py", MODEL)
        run("zoo")
        run("zoo/model.py", "--in-place")
        outcome = run("--revert", "zoo")
        assert outcome.code == 0
        assert Path("zoo/model.py").read_bytes() == MODEL

    def test_in_strings_that_hold_half_a_character(self) -> None:
        write("zoo/model.py", MODEL.replace(b"model", rb'nets["\ud83d"]').replace(b"\n\n", b"\n\nnets = {}\n"))
        outcome = run("zoo", "--check", *(f"--report=report{suffix}" for suffix in (".json", ".md", ".sarif", ".html")))
        assert outcome.code == 1
        (model,) = json.loads(Path("report.json").read_bytes())["files"]
        assert [site["decision"] for site in model["sites"]] == ["wrap"]

    @pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names are text")
    def test_that_are_no_text(self) -> None:
        name = os.fsdecode(b"zoo/\xff.py")
        write(name, MODEL)
        for option in ("--in-place", "--check", "--revert"):
            assert run("zoo", option, "--report", "report.json").code == 0
        assert Path(name).read_bytes() == MODEL
        assert json.loads(Path("report.json").read_bytes())["files"][0]["path"] == "zoo/\ufffd.py"


@pytest.mark.usefixtures("zoo")
class TestConfiguration:
    def test_of_each_file_is_the_nearest(self) -> None:
        write("src/pyproject.toml", b'[tool.instrumentor]\nlogdir = "outer"\n')
        write("src/zoo/pyproject.toml", b'[tool.instrumentor]\nlogdir = "inner"\n')
        run("src", "--in-place")
        assert b'logdir="outer"' in Path("src/train.py").read_bytes()
        assert b'logdir="inner"' in Path("src/zoo/factory.py").read_bytes()

    def test_a_mistake_in_it_is_one_line(self) -> None:
        write("src/pyproject.toml", b"[tool.instrumentor]\nlog-levl = 1\n")
        outcome = run("src")
        assert outcome.code == 2
        assert outcome.err.endswith(
            "pyproject.toml:2: log-levl is not a setting of this tool; did you mean log-level?\n"
        )
        assert run("src", "--isolated").code == 0

    def test_show_files(self) -> None:
        outcome = run("src", "--show-files", "--extend-exclude", "src/zoo/d*")
        assert outcome.out.decode().splitlines() == [
            "src/train.py",
            "src/zoo/__init__.py",
            "src/zoo/factory.py",
            "src/zoo/net.py",
        ]

    def test_show_files_tells_what_is_not_there(self) -> None:
        outcome = run("src/train.py", "src/trian.py", "--show-files")
        assert (outcome.code, outcome.out) == (2, b"src/train.py\n")
        assert outcome.err == "src/trian.py: no such file; did you mean src/train.py?\n"

    def test_a_tree_without_scripts_is_told(self) -> None:
        Path("empty").mkdir()
        outcome = run("empty")
        assert outcome.code == 0
        assert outcome.err == "no files to process: none matches --include, or all are excluded or ignored by git\n"
        assert run("src", "--shard", "7/97").err == "0 files: 0 instrumented (0 models)\n"

    def test_a_cache_that_cannot_be_where_it_was_asked_for_is_told(self) -> None:
        write("file", b"")
        outcome = run("src/train.py", "--check", "--cache-dir", "file/cache")
        assert outcome.code == 1
        assert outcome.err.startswith("file/cache: cannot be used as a cache, so every file is processed again\n")

    @pytest.mark.parametrize("separator", [b"\n", b"\0", b"\r\n"])
    def test_files_from(self, separator: bytes) -> None:
        listed = separator.join((b"src/train.py", b"src/zoo/net.py")) + separator
        write("list", listed)
        for source, stdin in (("list", b""), ("-", listed)):
            outcome = run("--files-from", source, "--show-files", stdin=stdin)
            assert outcome.out.decode().splitlines() == ["src/train.py", "src/zoo/net.py"]


@pytest.mark.usefixtures("zoo")
class TestParts:
    def test_shards_merge_to_the_whole(self) -> None:
        assert run("src", "--check", "--report", "whole.json").code == 1
        for index in (1, 2, 3):
            run("src", "--check", "--shard", f"{index}/3", "--report", f"part{index}.json")
        outcome = run("--merge-reports", "part3.json", "part1.json", "part2.json", "--report", "merged.json")
        assert outcome.code == 0
        assert Path("merged.json").read_bytes() == Path("whole.json").read_bytes()

    def test_reports_of_the_same_files_do_not_merge(self) -> None:
        run("src", "--check", "--report", "a.json")
        outcome = run("--merge-reports", "a.json", "./a.json", "--report", "b.json")
        assert outcome.code == 2
        assert "contains src/train.py, and so does a.json" in outcome.err

    def test_what_is_no_report_does_not_merge(self) -> None:
        write("a.json", b'{"version": 2}')
        outcome = run("--merge-reports", "a.json", "--report", "b.json")
        assert outcome.code == 2
        assert outcome.err.startswith("a.json: is not a report that this version can read")


@pytest.mark.usefixtures("zoo")
class TestReports:
    @pytest.mark.parametrize("suffix", KINDS)
    def test_one_replaces_what_an_earlier_run_wrote(self, suffix: str) -> None:
        name = f"review{suffix}"
        write(name, b"")  # as mktemp leaves it
        assert run("src", "--check", "--report", name).code == 1
        before = Path(name).read_bytes()
        assert run("src/train.py", "--check", "--report", name).code == 1
        assert Path(name).read_bytes() not in (b"", before)

    @pytest.mark.parametrize("suffix", KINDS)
    def test_but_nothing_else(self, suffix: str) -> None:
        name = f"README{suffix}"
        write(name, b"what this project is\n")
        outcome = run("src", "--in-place", "--report", name)
        assert outcome.code == 2
        assert (
            outcome.err
            == f"{name}: exists and is not a report; choose another --report, or overwrite it with --force\n"
        )
        assert Path(name).read_bytes() == b"what this project is\n"
        assert Path("src/train.py").read_bytes() == TRAIN
        assert run("src", "--check", "--report", name, "--force").code == 1
        assert Path(name).read_bytes() != b"what this project is\n"


def interrupt_after_two(patched: pytest.MonkeyPatch) -> None:
    """Let Ctrl-C come when two scripts have been handled."""
    handle = command._Run.handle
    handled: list[str] = []

    def handle_two(self: Any, done: Any) -> None:
        if len(handled) == 2:
            raise KeyboardInterrupt
        handled.append(done.task.shown)
        handle(self, done)

    patched.setattr(command._Run, "handle", handle_two)


@pytest.mark.usefixtures("zoo")
class TestResume:
    def test_goes_on_where_it_stopped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        run("src", "--in-place", "--report", "whole.json", "--no-cache")
        whole = Path("whole.json").read_bytes()
        run("--revert", "src")
        with monkeypatch.context() as patched:
            interrupt_after_two(patched)
            assert run("src", "--in-place", "--report", "r.json", "--no-cache").code == 130
        assert not Path("r.json").exists()
        with Path("r.json.partial").open("ab") as file:
            file.write(b'{"path": "src/zoo/net.py", "sta')  # the end of a killed run
        assert run("src", "--in-place", "--report", "r.json", "--no-cache", "--resume").code == 0
        assert Path("r.json").read_bytes() == whole
        assert not Path("r.json.partial").exists()

    @pytest.mark.parametrize("is_there", [False, True], ids=["a new mirror", "one of an earlier run"])
    def test_and_keeps_what_it_put_into_a_mirror(self, is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        run("src", "-o", "whole")
        if is_there:
            run("src", "-o", "traced")
        with monkeypatch.context() as patched:
            interrupt_after_two(patched)
            assert run("src", "-o", "traced", "--report", "r.json", "--no-cache").code == 130
        assert run("src", "-o", "traced", "--report", "r.json", "--no-cache", "--resume").code == 0
        assert snapshot("traced") == snapshot("whole")

    @pytest.mark.parametrize("is_broken", [False, True], ids=["would change", "failed"])
    def test_and_counts_what_was_done_before(self, is_broken: bool) -> None:
        if is_broken:
            write("src/broken.py", b"import torch.nn\nx = (\n")
        whole = run("src", "--check", "--report", "r.json", "--report", "reports/r.md")
        assert whole.code == (2 if is_broken else 1)
        write("in_the_way/reports", b"")
        options = ("src", "--check", "--report", "s.json", "--report", "in_the_way/reports/r.md")
        assert run(*options).code == 2  # with all the work done
        Path("in_the_way/reports").unlink()
        resumed = run(*options, "--resume")
        assert resumed.code == whole.code
        summary = whole.err[whole.err.index("6 files: " if is_broken else "5 files: ") :]
        assert "2 to be instrumented (2 models)" in summary
        assert resumed.err == summary

    def test_but_not_over_what_is_no_journal(self) -> None:
        write("report.json.partial", b"somebody's notes\n")
        outcome = run("src", "--check", "--report", "report.json", "--resume")
        assert outcome.code == 2
        assert "was left by a run with other options" in outcome.err
        assert Path("report.json.partial").read_bytes() == b"somebody's notes\n"

    def test_but_not_with_other_options(self) -> None:
        write("r.json.partial", json.dumps("another run").encode() + b"\n")
        outcome = run("src", "--in-place", "--report", "r.json", "--resume")
        assert outcome.code == 2
        assert "was left by a run with other options" in outcome.err


@pytest.mark.usefixtures("zoo")
class TestMachineOutput:
    def test_json(self) -> None:
        outcome = run("src", "--check", "--format", "json")
        document = json.loads(outcome.out)
        assert (outcome.code, document["version"], document["summary"]["decisions"]["wrap"]) == (1, 1, 2)

    def test_explain_for_programs(self) -> None:
        before = snapshot()
        (first,) = json.loads(run("src/train.py", "--explain", "--format", "json").out)["files"]
        assert [(site["target"], site["decision"]) for site in first["sites"]] == [("model", "wrap")]
        assert snapshot() == before

    def test_github(self) -> None:
        write("src/bad, or: worse.py", b"import torch.nn\nx = (\n")
        lines = run("src", "--check", "--format", "github").out.decode().splitlines()
        assert lines[0].startswith("::error file=src/bad%2C or%3A worse.py,line=2,col=5,title=instrument::not Python")
        assert lines[1].startswith("::notice file=src/train.py,line=4,col=")

    def test_statistics(self) -> None:
        before = snapshot()
        outcome = run("src", "--statistics")
        assert (outcome.code, snapshot()) == (0, before)
        assert "sites in 5 files: 2 wrap" in outcome.out.decode()


def test_verbose_says_what_is_not_wrapped_whatever_an_earlier_run_left_out(zoo: None) -> None:
    run("src", "--check")
    assert "src/zoo/net.py:7:19: not wrapped" in run("src", "--check", "--verbose").err
