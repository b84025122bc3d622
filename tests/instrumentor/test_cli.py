"""The `instrument` command, from its arguments to its exit code."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from typer.testing import CliRunner

import instrumentor
from instrumentor.cli import app
from instrumentor.engine import work
from instrumentor.instrument import instrument_source
from instrumentor.paths import files

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.instrument import Result
    from instrumentor.paths.files import Script

MODEL = b"import torch.nn as nn\n\nmodel = nn.Linear(2, 2)\nprint(model(model.weight))\n"
TWO_MODELS = b"import torch.nn as nn\n\nnet = nn.Linear(2, 2)\nema = nn.Linear(2, 2)\nprint(net, ema)\n"
NO_MODEL = b"print('hello')\n"
NOT_FOUND = (
    "no model found in plain.py\n"
    "plain.py: --explain --verbose shows how its objects were classified; if one is a model, list the function that "
    "creates it under factories = [...] in [tool.instrumentor] of pyproject.toml\n"
)
WRAPPED = b"model = Proxy.Proxy(model, "


class Outcome:
    """What a user sees of one run."""

    def __init__(self, code: int, out: bytes, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("INSTRUMENT_CACHE_DIR", str(tmp_path.parent / "cache"))


def run(*arguments: str, stdin: bytes = b"") -> Outcome:
    result = CliRunner().invoke(app, arguments, input=stdin, prog_name="instrument")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Outcome(result.exit_code, result.stdout_bytes, result.stderr)


def run_process(*arguments: str, stdin: bytes = b"") -> Outcome:
    """Run the command as users do, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "instrumentor", *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        env=process_environment(),
    )
    return Outcome(done.returncode, done.stdout, done.stderr.decode())


def process_environment(**extra: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **extra}


def write(name: str, content: bytes = MODEL) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def listing(directory: str = ".") -> list[str]:
    return sorted(path.name for path in Path(directory).iterdir())


def squeeze(text: str) -> str:
    """Undo the boxes and line breaks of what typer prints."""
    return " ".join(re.sub("[│╭╮╰╯─]", " ", text).split())


class TestWriting:
    def test_beside_the_script(self) -> None:
        write("mnist.py")
        outcome = run("mnist.py")
        assert (outcome.code, outcome.out) == (0, b"")
        assert outcome.err == (
            "mnist.py -> instrumented_mnist.py: 1 model (model, line 3)\nrun it with: python instrumented_mnist.py\n"
        )
        assert WRAPPED in Path("instrumented_mnist.py").read_bytes()
        assert Path("mnist.py").read_bytes() == MODEL
        assert listing() == ["instrumented_mnist.py", "mnist.py"]

    def test_to_a_file_in_a_directory_that_is_not_there_yet(self) -> None:
        write("mnist.py")
        outcome = run("mnist.py", "-o", "new/deep/out.py")
        assert outcome.err == (
            "mnist.py -> new/deep/out.py: 1 model (model, line 3)\nrun it with: python new/deep/out.py\n"
        )
        assert WRAPPED in Path("new/deep/out.py").read_bytes()

    def test_several_into_a_directory(self) -> None:
        write("a.py")
        write("b.py", TWO_MODELS)
        outcome = run("a.py", "b.py", "-o", "out/")
        assert outcome.code == 0
        assert outcome.err == (
            "a.py -> out/instrumented_a.py: 1 model (model, line 3)\n"
            "b.py -> out/instrumented_b.py: 2 models (net, line 3; ema, line 4)\n"
        )
        assert listing("out") == ["instrumented_a.py", "instrumented_b.py"]

    def test_in_place(self) -> None:
        write("mnist.py")
        outcome = run("mnist.py", "--in-place")
        assert (outcome.code, outcome.err) == (
            0,
            "mnist.py: 1 model (model, line 3), instrumented in place\nrun it with: python mnist.py\n",
        )
        assert WRAPPED in Path("mnist.py").read_bytes()
        assert listing() == ["mnist.py"]

    def test_many_models_are_counted_not_listed(self) -> None:
        lines = [f"net{i} = nn.Linear(2, 2)\n" for i in range(8)]
        write("zoo.py", ("import torch.nn as nn\n" + "".join(lines)).encode())
        assert run("zoo.py").err == (
            "zoo.py -> instrumented_zoo.py: 8 models (net0, line 2; net1, line 3; net2, line 4; net3, line 5;"
            " net4, line 6; and 3 more)\nrun it with: python instrumented_zoo.py\n"
        )

    def test_the_settings_arrive_in_the_script(self) -> None:
        write("mnist.py")
        run("mnist.py", "--logdir", "runs/x", "--log-level", "debug", "--no-recurse", "--statistics-of", "all")
        text = Path("instrumented_mnist.py").read_text()
        assert 'recurse=False, name="model", logdir="runs/x", log_level=Proxy.DEBUG, statistics="all")' in text

    @pytest.mark.parametrize("options", [("--skip", "e*"), ("--select", "net"), ("--select", "*", "--skip", "ema")])
    def test_models_can_be_left_out(self, options: tuple[str, ...]) -> None:
        write("gan.py", TWO_MODELS)
        assert run("gan.py", *options).err.startswith("gan.py -> instrumented_gan.py: 1 model (net, line 3)\n")

    def test_all_models_left_out(self) -> None:
        write("gan.py", TWO_MODELS)
        outcome = run("gan.py", "--skip", "*")
        assert (outcome.code, listing()) == (0, ["gan.py"])
        assert outcome.err == "no model to wrap (2 left out by --select or --skip) in gan.py\n"

    def test_a_script_named_twice_is_one_script(self) -> None:
        write("mnist.py")
        outcome = run("mnist.py", "./mnist.py")
        assert (outcome.code, outcome.err.count("\n")) == (0, 1)

    def test_two_scripts_never_share_an_output(self) -> None:
        write("a/x.py")
        write("b/x.py", TWO_MODELS)
        outcome = run("a/x.py", "b/x.py", "-o", "out/", "--force")
        assert outcome.code == 2
        assert outcome.err.splitlines()[1] == (
            "b/x.py: would be written to out/instrumented_x.py, like a/x.py;"
            " write them one at a time, each with its own -o"
        )
        assert WRAPPED in Path("out/instrumented_x.py").read_bytes()

    def test_an_absolute_path_is_not_recorded(self) -> None:
        path = write("mnist.py").resolve()
        run(str(path))
        assert b'source="mnist.py"' in Path("instrumented_mnist.py").read_bytes()

    @pytest.mark.skipif(os.name != "posix", reason="modes as POSIX has them")
    def test_the_mode_of_the_script_is_kept(self) -> None:
        write("mnist.py").chmod(0o755)
        run("mnist.py")
        run("mnist.py", "--in-place")
        assert stat.S_IMODE(Path("instrumented_mnist.py").stat().st_mode) == 0o755
        assert stat.S_IMODE(Path("mnist.py").stat().st_mode) == 0o755

    @pytest.mark.skipif(os.name != "posix", reason="links as POSIX has them")
    def test_in_place_through_a_link(self) -> None:
        write("real/mnist.py")
        Path("link.py").symlink_to("real/mnist.py")
        assert run("link.py", "--in-place").code == 0
        assert Path("link.py").is_symlink()
        assert WRAPPED in Path("real/mnist.py").read_bytes()

    def test_classes_of_sibling_files_are_known(self) -> None:
        write(
            "net.py",
            b"import torch.nn as nn\n\nclass Net(nn.Module):\n    def __init__(self):\n"
            b"        super().__init__()\n        self.fc = nn.Linear(2, 2)\n",
        )
        write("train.py", b"from net import Net\n\nthing = Net()\nprint(thing)\n")
        assert run("train.py").err.startswith("train.py -> instrumented_train.py: 1 model (thing, line 3)\n")


class TestNothingToDo:
    def test_no_model(self) -> None:
        write("plain.py", NO_MODEL)
        outcome = run("plain.py")
        assert (outcome.code, outcome.err) == (0, NOT_FOUND)
        assert listing() == ["plain.py"]

    def test_no_model_but_an_output_wanted(self) -> None:
        write("plain.py", NO_MODEL)
        outcome = run("plain.py", "-o", "out.py")
        assert (outcome.code, outcome.err) == (0, "plain.py -> out.py: no model found, copied unchanged\n")
        assert Path("out.py").read_bytes() == NO_MODEL
        assert run("plain.py", "-o", "out.py").err == "plain.py -> out.py: no model found, a copy already exists\n"

    def test_no_model_in_place(self) -> None:
        write("plain.py", NO_MODEL)
        outcome = run("plain.py", "--in-place")
        assert (outcome.code, outcome.err) == (0, NOT_FOUND)

    @pytest.mark.parametrize("options", [(), ("-o", "out.py"), ("--in-place",), ("--diff",), ("--check",)])
    def test_already_instrumented(self, options: tuple[str, ...]) -> None:
        write("mnist.py")
        run("mnist.py", "--in-place")
        before = Path("mnist.py").read_bytes()
        outcome = run("mnist.py", *options)
        assert (outcome.code, outcome.out) == (0, b"")
        assert outcome.err == "mnist.py: already instrumented\n"
        assert listing() == ["mnist.py"]
        assert Path("mnist.py").read_bytes() == before

    def test_instrumented_and_edited_since(self) -> None:
        write("mnist.py")
        run("mnist.py", "--in-place")
        edited = write("mnist.py", Path("mnist.py").read_bytes().replace(b"print", b"repr")).read_bytes()
        for options in ((), ("--in-place",), ("--diff",), ("--explain",)):
            outcome = run("mnist.py", *options)
            assert (outcome.code, outcome.out) == (2, b"")
            assert re.match(r"mnist.py:\d+: edited since it was instrumented", outcome.err)
        assert (listing(), Path("mnist.py").read_bytes()) == (["mnist.py"], edited)

    def test_a_second_run_changes_nothing(self) -> None:
        write("mnist.py")
        run("mnist.py")
        before = Path("instrumented_mnist.py").stat().st_mtime_ns
        outcome = run("mnist.py")
        assert outcome.err == (
            "mnist.py -> instrumented_mnist.py: 1 model (model, line 3), already up to date\n"
            "run it with: python instrumented_mnist.py\n"
        )
        assert Path("instrumented_mnist.py").stat().st_mtime_ns == before

    @pytest.mark.parametrize("comment", [b"# instrument: skip-file\n", b"# instrument: skip\n"])
    def test_suppressed(self, comment: bytes) -> None:
        if b"file" in comment:
            write("mnist.py", comment + MODEL)
        else:
            write("mnist.py", MODEL.replace(b"Linear(2, 2)\n", b"Linear(2, 2)  " + comment))
        outcome = run("mnist.py")
        assert (outcome.code, listing()) == (0, ["mnist.py"])
        assert outcome.err == "no model to wrap (1 suppressed by a comment) in mnist.py\n"


class TestInTheWay:
    def test_an_output_of_ours_is_replaced(self) -> None:
        write("mnist.py")
        run("mnist.py")
        write("mnist.py", TWO_MODELS)
        assert run("mnist.py").code == 0
        assert b"Proxy.Proxy(ema" in Path("instrumented_mnist.py").read_bytes()

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            pytest.param(b"mine", "exists and was not written by instrument", id="another file"),
            pytest.param(b"", "exists and was not written by instrument", id="an empty file"),
            pytest.param(b"\xff\xfe\0", "exists and was not written by instrument", id="not even text"),
        ],
    )
    def test_a_file_of_the_user_stays(self, content: bytes, reason: str) -> None:
        write("mnist.py")
        write("instrumented_mnist.py", content)
        outcome = run("mnist.py")
        assert outcome.code == 2
        assert outcome.err == (f"instrumented_mnist.py: {reason}; choose another -o, or overwrite it with --force\n")
        assert Path("instrumented_mnist.py").read_bytes() == content
        assert run("mnist.py", "--force").code == 0
        assert WRAPPED in Path("instrumented_mnist.py").read_bytes()

    @pytest.mark.parametrize(
        "edit",
        [
            pytest.param(lambda text: text + b"print(1)\n", id="after the comment"),
            pytest.param(lambda text: text.replace(b"print", b"repr"), id="before the comment"),
        ],
    )
    def test_an_edited_output_stays(self, edit: Callable[[bytes], bytes]) -> None:
        write("mnist.py")
        run("mnist.py")
        edited = edit(Path("instrumented_mnist.py").read_bytes())
        write("instrumented_mnist.py", edited)
        outcome = run("mnist.py")
        assert outcome.code == 2
        assert outcome.err == (
            "instrumented_mnist.py: was edited after instrument wrote it;"
            " choose another -o, or overwrite it with --force\n"
        )
        assert Path("instrumented_mnist.py").read_bytes() == edited

    def test_the_only_copy_of_an_original_stays(self) -> None:
        write("a.py", TWO_MODELS)
        write("b.py")
        run("a.py", "--in-place")
        outcome = run("b.py", "-o", "a.py")
        assert outcome.code == 2
        assert outcome.err.startswith("a.py: is a script that was instrumented in place, whose original would be lost;")
        run("--revert", "a.py")
        assert Path("a.py").read_bytes() == TWO_MODELS

    def test_the_same_name_elsewhere_is_replaced(self) -> None:
        write("a.py")
        run("a.py", "-o", "out/a.py")
        write("a.py", TWO_MODELS)
        assert run("a.py", "-o", "out/a.py").code == 0

    def test_the_script_itself_stays(self) -> None:
        write("mnist.py")
        outcome = run("mnist.py", "-o", "./mnist.py", "--force")
        assert outcome.code == 2
        assert outcome.err == (
            "mnist.py: the output would replace the script itself; choose another -o, or use --in-place\n"
        )
        assert Path("mnist.py").read_bytes() == MODEL

    @pytest.mark.parametrize("is_there", [True, False])
    @pytest.mark.parametrize("options", [[], ["--force"]])
    def test_the_script_itself_stays_when_it_is_named_through_a_folder(
        self, is_there: bool, options: list[str]
    ) -> None:
        write("mnist.py")
        if is_there:
            Path("sub").mkdir()
        outcome = run("mnist.py", "-o", "sub/../mnist.py", *options)
        assert outcome.code == 2
        assert "the output would replace the script itself" in outcome.err
        assert Path("mnist.py").read_bytes() == MODEL


class TestInPlace:
    def test_options_change_the_line_of_an_instrumented_script(self) -> None:
        write("mnist.py")
        assert run("mnist.py", "--in-place", "--logdir", "mine", "--every", "3").code == 0
        outcome = run("mnist.py", "--in-place", "--log-level", "DEBUG")
        assert outcome.err.splitlines()[0] == "mnist.py: 1 model (model, line 3), instrumented in place"
        line = 'model = Proxy.Proxy(model, recurse=True, name="model", logdir="mine", log_level=Proxy.DEBUG, every=3)'
        assert line in Path("mnist.py").read_text()
        for options in (["--log-level", "DEBUG"], [], ["--every", "3", "--logdir", "mine"]):
            assert run("mnist.py", "--in-place", *options).err == "mnist.py: already instrumented\n"
        assert line in Path("mnist.py").read_text()
        assert run("--revert", "mnist.py").code == 0
        assert Path("mnist.py").read_bytes() == MODEL

    def test_options_change_the_lines_of_a_tree(self) -> None:
        for name in ("a.py", "b.py"):
            write(f"tree/{name}")
        run("tree", "--in-place")
        assert "2 instrumented" in run("tree", "--in-place", "--log-level", "WARNING").err
        assert all(b"Proxy.WARNING" in Path(f"tree/{name}").read_bytes() for name in ("a.py", "b.py"))
        assert "2 already instrumented" in run("tree", "--in-place", "--log-level", "WARNING").err

    def test_an_edited_script_stays(self) -> None:
        write("mnist.py")
        run("mnist.py", "--in-place")
        edited = Path("mnist.py").read_bytes().replace(b"print(", b"print(1, ")
        Path("mnist.py").write_bytes(edited)
        outcome = run("mnist.py", "--in-place", "--log-level", "DEBUG")
        assert "edited since" in outcome.err
        assert Path("mnist.py").read_bytes() == edited

    def test_without_in_place_an_instrumented_script_stays(self) -> None:
        write("mnist.py")
        run("mnist.py", "--in-place")
        before = Path("mnist.py").read_bytes()
        assert run("mnist.py", "--log-level", "DEBUG").err == "mnist.py: already instrumented\n"
        assert Path("mnist.py").read_bytes() == before
        assert run("mnist.py", "--in-place", "--log-level", "DEBUG").code == 0
        assert b"Proxy.DEBUG" in Path("mnist.py").read_bytes()


class TestStandardStreams:
    def test_a_filter_passes_exact_bytes(self) -> None:
        outcome = run("-", stdin=MODEL.replace(b"\n", b"\r\n"))
        assert outcome.code == 0
        assert outcome.out.count(b"\n") == outcome.out.count(b"\r\n") > 4
        assert WRAPPED in outcome.out
        assert b'source="<stdin>"' in outcome.out
        assert outcome.err == "<stdin> -> standard output: 1 model (model, line 3)\n"

    def test_standard_input_can_have_a_name(self) -> None:
        outcome = run("-", "--stdin-filename", "src/mnist.py", stdin=MODEL)
        assert b'source="src/mnist.py"' in outcome.out
        assert outcome.err == "src/mnist.py -> standard output: 1 model (model, line 3)\n"

    def test_nothing_to_do_passes_everything_on(self) -> None:
        outcome = run("-", stdin=NO_MODEL)
        assert (outcome.code, outcome.out) == (0, NO_MODEL)
        assert outcome.err == "<stdin> -> standard output: no model found, copied unchanged\n"
        twice = run("-", stdin=run("-", stdin=MODEL).out)
        assert WRAPPED in twice.out
        assert twice.err == "<stdin> -> standard output: already instrumented, copied unchanged\n"

    def test_an_error_passes_nothing_on(self) -> None:
        outcome = run("-", stdin=b"x = (\n")
        assert (outcome.code, outcome.out) == (2, b"")
        assert outcome.err.startswith("<stdin>:1:")

    def test_from_a_file_to_standard_output(self) -> None:
        write("mnist.py")
        assert WRAPPED in run("mnist.py", "-o", "-").out
        assert listing() == ["mnist.py"]

    def test_what_is_instrumented_already_comes_out_as_it_is(self) -> None:
        write("mnist.py")
        run("mnist.py")
        outcome = run("instrumented_mnist.py", "-o", "-")
        assert (outcome.code, outcome.out) == (0, Path("instrumented_mnist.py").read_bytes())
        assert outcome.err == "instrumented_mnist.py -> standard output: already instrumented, copied unchanged\n"

    def test_from_standard_input_to_a_file(self) -> None:
        outcome = run("-", "-o", "out.py", stdin=MODEL)
        assert (outcome.out, outcome.err) == (
            b"",
            "<stdin> -> out.py: 1 model (model, line 3)\nrun it with: python out.py\n",
        )
        assert WRAPPED in Path("out.py").read_bytes()

    def test_a_real_pipe(self) -> None:
        source = b"\xef\xbb\xbf" + MODEL.replace(b"\n", b"\r\n")
        there = run_process("-", stdin=source)
        assert there.code == 0
        back = run_process("--revert", "-", "-q", stdin=there.out)
        assert (back.code, back.out, back.err) == (0, source, "")


class TestReview:
    def test_diff(self) -> None:
        write("mnist.py")
        outcome = run("mnist.py", "--diff")
        lines = outcome.out.decode().splitlines()
        assert (outcome.code, outcome.err) == (0, "")
        assert lines[:2] == ["--- a/mnist.py", "+++ b/instrumented_mnist.py"]
        assert any(line.startswith("+" + WRAPPED.decode()) for line in lines)
        assert not [line for line in lines[2:] if line.startswith("-")]
        assert listing() == ["mnist.py"]

    @pytest.mark.parametrize(
        ("options", "target"),
        [
            pytest.param(("-o", "out/x.py"), "out/x.py", id="a file"),
            pytest.param(("-o", "out/"), "out/instrumented_mnist.py", id="a directory"),
            pytest.param(("-o", "-"), "mnist.py", id="standard output"),
            pytest.param(("--in-place",), "mnist.py", id="in place"),
        ],
    )
    def test_diff_names_its_target(self, options: tuple[str, ...], target: str) -> None:
        write("mnist.py")
        assert run("mnist.py", "--diff", *options).out.startswith(f"--- a/mnist.py\n+++ b/{target}\n".encode())
        assert listing() == ["mnist.py"]

    def test_diff_of_another_encoding_is_exact(self) -> None:
        write("mnist.py", b"# coding: latin-1\n" + MODEL + b"print('\xe9')\n")
        outcome = run("mnist.py", "--diff")
        assert b" print('\xe9')\n" in outcome.out

    @pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
    @pytest.mark.parametrize("no_color", ["", "1"])
    def test_diff_on_a_terminal(self, no_color: str) -> None:
        write("mnist.py", b"# coding: latin-1\n" + MODEL + b"print('\xe9')\n")
        controller, terminal = pty.openpty()
        with os.fdopen(controller, "rb", buffering=0) as screen:
            subprocess.run(
                [sys.executable, "-m", "instrumentor", "mnist.py", "--diff"],
                stdout=terminal,
                check=True,
                env=process_environment(NO_COLOR=no_color, TERM="xterm", PYTHONIOENCODING="utf-8"),
            )
            os.close(terminal)
            shown = b""
            try:
                while chunk := screen.read(4096):
                    shown += chunk
            except OSError:  # Linux: the other end is closed
                pass
        assert "print('é')" in shown.decode()
        assert (b"\x1b[32m+model = " in shown) is (not no_color)

    def test_check(self) -> None:
        write("mnist.py")
        write("plain.py", NO_MODEL)
        outcome = run("--check", "mnist.py", "plain.py")
        assert (outcome.code, outcome.out) == (1, b"")
        assert outcome.err == "mnist.py: would be instrumented: 1 model (model, line 3)\nno model found in plain.py\n"
        assert run("--check", "plain.py").code == 0
        assert listing() == ["mnist.py", "plain.py"]

    def test_check_with_diff(self) -> None:
        write("mnist.py")
        outcome = run("--check", "--diff", "mnist.py")
        assert outcome.code == 1
        assert outcome.out.startswith(b"--- a/mnist.py\n")
        assert listing() == ["mnist.py"]

    def test_check_with_an_error_is_an_error(self) -> None:
        write("mnist.py")
        assert run("--check", "mnist.py", "gone.py").code == 2

    def test_check_of_standard_input(self) -> None:
        outcome = run("--check", "-", stdin=MODEL)
        assert (outcome.code, outcome.out) == (1, b"")

    def test_explain(self) -> None:
        write("gan.py", TWO_MODELS)
        write("plain.py", NO_MODEL)
        outcome = run("--explain", "gan.py", "plain.py", "--skip", "ema")
        assert outcome.code == 0
        header, _, first, second = outcome.out.decode().splitlines()
        assert header.split() == ["File", "Line", "Binding", "Object", "Verdict", "Confidence", "Reason", "Aliases"]
        assert re.match(r"gan.py +3 +net +torch.nn.Linear \(catalogue\) +wrap +certain +\w", first)
        assert re.match(r"gan.py +4 +ema +torch.nn.Linear \(catalogue\) +not wrapped +certain +\w", second)
        assert outcome.err == "no model found in plain.py\n"
        assert listing() == ["gan.py", "plain.py"]

    def test_explain_of_an_instrumented_script_is_about_its_original(self) -> None:
        write("gan.py", TWO_MODELS)
        before = run("--explain", "gan.py").out
        run("gan.py", "--in-place")
        outcome = run("--explain", "gan.py")
        assert (outcome.code, outcome.out, outcome.err) == (0, before, "gan.py: already instrumented\n")


class TestRevert:
    def test_in_place_what_was_instrumented_in_place(self) -> None:
        write("src/mnist.py")
        run("src/mnist.py", "--in-place")
        outcome = run("--revert", "src/mnist.py")
        assert (outcome.code, outcome.err) == (0, "src/mnist.py: the original, restored in place\n")
        assert Path("src/mnist.py").read_bytes() == MODEL
        assert listing("src") == ["mnist.py"]

    def test_beside_what_was_instrumented_beside(self) -> None:
        write("src/mnist.py")
        run("src/mnist.py")
        Path("src/mnist.py").unlink()
        outcome = run("--revert", "src/instrumented_mnist.py")
        assert (outcome.code, outcome.err) == (
            0,
            "src/instrumented_mnist.py -> src/mnist.py: the original, restored\n",
        )
        assert Path("src/mnist.py").read_bytes() == MODEL

    def test_an_original_that_is_still_there(self) -> None:
        write("mnist.py")
        run("mnist.py")
        outcome = run("--revert", "instrumented_mnist.py")
        assert (outcome.code, outcome.err) == (
            0,
            "instrumented_mnist.py -> mnist.py: the original already exists, byte for byte\n",
        )

    def test_an_original_that_has_moved_on_stays(self) -> None:
        write("mnist.py")
        run("mnist.py")
        write("mnist.py", TWO_MODELS)
        outcome = run("--revert", "instrumented_mnist.py")
        assert outcome.code == 2
        assert outcome.err == (
            "mnist.py: exists and differs from the original; choose another -o, or overwrite it with --force\n"
        )
        assert Path("mnist.py").read_bytes() == TWO_MODELS
        assert run("--revert", "instrumented_mnist.py", "--force").code == 0
        assert Path("mnist.py").read_bytes() == MODEL

    def test_to_a_file_and_to_standard_output(self) -> None:
        write("mnist.py")
        run("mnist.py")
        assert run("--revert", "instrumented_mnist.py", "-o", "old/was.py").code == 0
        assert Path("old/was.py").read_bytes() == MODEL
        assert run("--revert", "instrumented_mnist.py", "-o", "-").out == MODEL

    def test_in_place_a_renamed_file(self) -> None:
        write("mnist.py")
        run("mnist.py")
        assert run("--revert", "--in-place", "instrumented_mnist.py").code == 0
        assert Path("instrumented_mnist.py").read_bytes() == MODEL

    def test_what_came_from_standard_input_needs_a_name(self) -> None:
        run("-", "-o", "out.py", stdin=MODEL)
        outcome = run("--revert", "out.py")
        assert outcome.code == 2
        assert outcome.err == (
            "out.py: the original is recorded as '<stdin>', which is not a file name; use -o to say where it goes\n"
        )

    def test_check_and_diff(self) -> None:
        write("mnist.py")
        run("mnist.py")
        outcome = run("--revert", "--check", "--diff", "instrumented_mnist.py")
        assert outcome.code == 1
        assert outcome.out.startswith(b"--- a/instrumented_mnist.py\n+++ b/mnist.py\n")
        assert outcome.err == "instrumented_mnist.py: would be reverted\n"

    @pytest.mark.parametrize(
        "content",
        [
            pytest.param(b"print('h\xe9')  # coding: latin-1\r\n", id="latin-1 in UTF-8's place"),
            pytest.param(b"", id="empty"),
            pytest.param(MODEL, id="never instrumented"),
        ],
    )
    def test_not_instrumented(self, content: bytes) -> None:
        write("plain.py", content)
        for options in ((), ("--check",), ("--diff",)):
            outcome = run("--revert", "plain.py", *options)
            assert (outcome.code, outcome.out) == (2, b"")
            assert outcome.err.startswith("plain.py: not instrumented, so there is nothing to revert")

    def test_edited_since(self) -> None:
        write("mnist.py")
        run("mnist.py")
        edited = Path("instrumented_mnist.py").read_bytes().replace(b"print", b"repr")
        write("instrumented_mnist.py", edited)
        outcome = run("--revert", "instrumented_mnist.py", "-o", "out.py")
        assert outcome.code == 2
        assert re.match(r"instrumented_mnist.py:\d+: edited since it was instrumented", outcome.err)
        assert not Path("out.py").exists()

    @pytest.mark.parametrize(
        "content",
        [
            pytest.param(b"\xef\xbb\xbf" + MODEL, id="BOM"),
            pytest.param(MODEL.replace(b"\n", b"\r\n"), id="CRLF"),
            pytest.param(MODEL.replace(b"\n", b"\r"), id="CR"),
            pytest.param(MODEL.rstrip(), id="no newline at the end"),
            pytest.param(b"# coding: latin-1\n" + MODEL + b"print('\xe9')\n", id="latin-1"),
            pytest.param(MODEL.replace(b"\n\n", b"\n\x0c\r\n"), id="form feed and mixed newlines"),
        ],
    )
    def test_there_and_back(self, content: bytes) -> None:
        write("mnist.py", content)
        assert run("mnist.py", "--in-place").code == 0
        assert Path("mnist.py").read_bytes() != content
        assert run("--revert", "mnist.py").code == 0
        assert Path("mnist.py").read_bytes() == content


class TestMistakes:
    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            pytest.param("bad.py", b"x = 1\ny = (\n", r"bad\.py:2:5: .+", id="not Python"),
            pytest.param("bad.py", b"x = 1\ny = '\xff'\n", r"bad\.py:2\S*: .+", id="not decodable"),
            pytest.param("bad.py", b"# coding: klingon\n", r"bad\.py\S*: .+", id="an unknown encoding"),
            pytest.param("bad.py", b"x = '\0'\n", r"bad\.py\S*: .+", id="a null byte"),
            pytest.param("gone.py", None, r"gone\.py: no such file; check the path", id="missing"),
            pytest.param("gone/*.py", None, r"gone/\*\.py: no such file; .+", id="a glob that matches nothing"),
            pytest.param("net.pyi", b"", r"net\.pyi: is a stub file, .+", id="a stub"),
        ],
    )
    def test_a_bad_script_is_one_line_and_keeps_nobody_waiting(
        self, name: str, content: bytes | None, message: str
    ) -> None:
        write("src/mnist.py")
        if content is not None:
            write(name, content)
        before = listing()
        outcome = run(name, "src/mnist.py", "-q")
        assert outcome.code == 2
        assert re.fullmatch(message + "\n", outcome.err)
        assert WRAPPED in Path("src/instrumented_mnist.py").read_bytes()
        assert listing() == before

    def test_a_bad_script_is_called_what_the_user_called_it(self) -> None:
        path = write("bad.py", b"x = (\n").resolve()
        assert run(str(path)).err.startswith(f"{path}:1:5: ")

    @pytest.mark.parametrize(
        ("output", "message"),
        [
            pytest.param(
                "mnist.py/out.py",
                "mnist.py/out.py: cannot be written (Not a directory); choose another place with -o\n",
                id="below a file",
            ),
            pytest.param(
                "x" * 300 + ".py",
                "x" * 300 + ".py: cannot be written (File name too long); choose another place with -o\n",
                id="too long",
            ),
        ],
    )
    @pytest.mark.skipif(os.name != "posix", reason="the messages of POSIX")
    def test_an_output_that_cannot_be(self, output: str, message: str) -> None:
        write("mnist.py")
        outcome = run("mnist.py", "-o", output)
        assert (outcome.code, outcome.err) == (2, message)
        assert listing() == ["mnist.py"]

    @pytest.mark.skipif(os.name != "posix", reason="links as POSIX has them")
    def test_a_link_that_leads_nowhere(self) -> None:
        Path("mnist.py").symlink_to("gone.py")
        assert run("mnist.py").err == "mnist.py: no such file; it is a link to nothing\n"

    def test_a_name_that_no_file_can_have(self) -> None:
        outcome = run("x" * 300)
        assert outcome.code == 2
        assert "File name too long" in outcome.err

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full")
    @pytest.mark.parametrize("option", ["--diff", "--explain", "--statistics", "--format=json", "--format=github"])
    def test_standard_output_that_refuses(self, option: str) -> None:
        write("mnist.py")
        with Path("/dev/full").open("wb") as full:
            ran = subprocess.run(
                [sys.executable, "-m", "instrumentor", "mnist.py", "--check", option],
                stdout=full,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(Path(instrumentor.__file__).parent.parent)},
                check=False,
            )
        assert ran.returncode == 2
        assert b"standard output: cannot be written (No space left on device)\n" in ran.stderr

    def test_a_full_disk(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> NoReturn:
            raise OSError(28, "No space left on device")

        write("mnist.py")
        monkeypatch.setattr(os, "replace", fail)
        outcome = run("mnist.py", "--in-place")
        assert outcome.code == 2
        assert outcome.err == "mnist.py: cannot be written (No space left on device); choose another place with -o\n"
        assert listing() == ["mnist.py"]
        assert Path("mnist.py").read_bytes() == MODEL

    def test_a_bug_is_reported_and_keeps_nobody_waiting(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail_on_first(source: bytes, settings: object, **options: object) -> Result:
            if options["source_name"] == "a.py":
                raise ZeroDivisionError("oops")
            return instrument_source(source, settings, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(work, "instrument_source", fail_on_first)
        write("a.py")
        write("b.py")
        outcome = run("a.py", "b.py")
        assert outcome.code == 2
        assert outcome.err == (
            "a.py: internal error, the file was left as it is (ZeroDivisionError: oops);"
            " please report it, with what --verbose says\n"
            "b.py -> instrumented_b.py: 1 model (model, line 3)\n"
        )
        assert "Traceback (most recent call last)" in run("a.py", "-v").err

    def test_so_is_one_that_is_met_when_results_are_put_away(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail_on_first(script: Script, output: str | None) -> Path | None:
            if script.name == "a.py":
                raise ZeroDivisionError("oops")
            return instrumented_path(script, output)

        instrumented_path = files.instrumented_path
        monkeypatch.setattr(files, "instrumented_path", fail_on_first)
        write("a.py")
        write("b.py")
        outcome = run("a.py", "b.py", "-v", "--report", "report.json")
        assert outcome.code == 2
        assert "a.py: internal error, the file was left as it is (ZeroDivisionError: oops);" in outcome.err
        assert "Traceback (most recent call last)" in outcome.err
        assert "b.py -> instrumented_b.py: 1 model (model, line 3)\n" in outcome.err
        statuses = [each["status"] for each in json.loads(Path("report.json").read_bytes())["files"]]
        assert statuses == ["failed", "changed"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            pytest.param(("--in-place", "-o", "x.py", "a.py"), "--in-place: cannot be combined with --output", id="-o"),
            pytest.param(("--in-place", "-"), "--in-place: needs files; standard input cannot be", id="stdin"),
            pytest.param(
                ("--explain", "--diff", "a.py"), "--explain: cannot be combined with --diff", id="explain diff"
            ),
            pytest.param(("--explain", "--revert", "a.py"), "--explain: cannot be combined with", id="explain revert"),
            pytest.param(("-q", "-v", "a.py"), "--quiet: cannot be combined with --verbose", id="quiet and verbose"),
            pytest.param(("--logdir", "", "a.py"), "--logdir: is empty; name a directory", id="empty logdir"),
            pytest.param(("-o", "", "a.py"), "--output: is empty; name a file", id="empty output"),
            pytest.param(("--stdin-filename", "x.py", "a.py"), "which is read only if a script is", id="stdin name"),
            pytest.param(("--merge-reports", "a.json"), "--merge-reports: needs --report FILE", id="merge"),
            pytest.param(("--resume", "a.py"), "--resume: needs --report FILE", id="resume nothing"),
            pytest.param(("--report", "a.pdf", "a.py"), "--report: a.pdf is not a known kind of report", id="kind"),
            pytest.param(("--shard", "9/8", "a.py"), "--shard: '9/8' is not a shard; write 1/8", id="shard"),
            pytest.param(("--format", "json", "--diff", "a.py"), "--format: needs standard output", id="json"),
            pytest.param(("--isolated", "--config", "x", "a.py"), "--isolated: cannot be combined", id="isolated"),
            pytest.param((".", "-o", "-"), "--output: cannot be standard output for a directory", id="tree to stdout"),
            pytest.param(("", "a.py"), "PATH: is empty; name files", id="an empty path"),
            pytest.param(
                (".", "--show-files", "--in-place"),
                "--show-files: lists files and does nothing else; leave out --in-place",
                id="list and replace",
            ),
            pytest.param(
                ("--merge-reports", "x.json", "--report", "y.json", "--diff"),
                "--merge-reports: reads reports, not scripts; leave out --diff",
                id="merge and compare",
            ),
            pytest.param(("--copy-all", "--changed-only", "."), "--copy-all: cannot be combined", id="copies"),
            pytest.param(("--copy-all", "a.py"), "--copy-all: only applies to the mirror", id="no mirror"),
            pytest.param(
                ("--revert", "--skip", "x", "a.py"), "--skip: configures what is added to scripts", id="revert skip"
            ),
            pytest.param(("--entry", "a.ipynb"), "--entry: needs a script; name a notebook alone", id="entry notebook"),
            pytest.param(("--python-path", "gone", "a.py"), "--python-path: gone is not a directory", id="no packages"),
            pytest.param(("--files-from", "-", "-"), "--files-from: cannot be - if standard input", id="both stdin"),
            pytest.param(("--files-from", "gone"), "--files-from: gone cannot be read", id="no list of files"),
            pytest.param(
                ("a.py", "b.py", "-o", "c"),
                "is a single file, but there are several scripts; give a directory, c/",
                id="one",
            ),
            pytest.param(
                ("a.py", "b.py", "-o", "-"),
                "cannot be standard output for several scripts; name one of them, or give a directory such as "
                "instrumented/",
                id="one standard output",
            ),
            pytest.param(
                ("--log-level", "loud", "a.py"), "'loud' is not one of 'warning', 'info', 'debug'", id="level"
            ),
            pytest.param(("--what", "a.py"), "No such option", id="an unknown option"),
            pytest.param(("-q",), "PATH: missing; name files or directories, . for the current one", id="no script"),
        ],
    )
    def test_wrong_usage(self, arguments: tuple[str, ...], message: str) -> None:
        write("a.py")
        write("b.py")
        outcome = run(*arguments)
        assert outcome.code == 2
        assert message in squeeze(outcome.err)
        assert listing() == ["a.py", "b.py"]


class TestMessages:
    def test_quiet(self) -> None:
        write("mnist.py")
        write("plain.py", NO_MODEL)
        outcome = run("mnist.py", "plain.py", "--quiet")
        assert (outcome.code, outcome.out, outcome.err) == (0, b"", "")
        assert Path("instrumented_mnist.py").exists()

    def test_verbose(self) -> None:
        write("gan.py", TWO_MODELS)
        first, second, summary, _ = run("gan.py", "--verbose", "--skip", "ema").err.splitlines()
        assert re.fullmatch(r"gan\.py:3:\d+: wrap: net \(torch\.nn\.Linear\): .+", first)
        assert re.fullmatch(r"gan\.py:4:\d+: not wrapped: ema \(torch\.nn\.Linear\): .+", second)
        assert summary == "gan.py -> instrumented_gan.py: 1 model (net, line 3)"

    @pytest.mark.parametrize("option", ["--version", "-V"])
    def test_version(self, option: str) -> None:
        outcome = run(option)
        assert (outcome.code, outcome.out.decode()) == (0, f"instrument {instrumentor.__version__}\n")

    @pytest.mark.parametrize("option", ["--help", "-h"])
    def test_help_teaches(self, option: str) -> None:
        outcome = run(option)
        text = squeeze(outcome.out.decode())
        assert outcome.code == 0
        for part in (
            "$ instrument mnist.py",
            "$ instrument mnist.py --diff",
            "$ instrument - < mnist.py | python -",
            "$ instrument --revert instrumented_mnist.py",
            "# instrument: skip-file",
            "1 --check found something that would change",
            "130 interrupted",
            "Preview (writes no script)",
            "Tracing",
            "--install-completion",
        ):
            assert part in text

    def test_no_arguments_show_the_help(self) -> None:
        outcome = run()
        assert outcome.code == 2
        assert "$ instrument mnist.py" in outcome.err + outcome.out.decode()

    def test_completion_is_offered(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "instrumentor"],
            capture_output=True,
            text=True,
            check=False,
            env=process_environment(_INSTRUMENT_COMPLETE="complete_bash", COMP_WORDS="instrument --re", COMP_CWORD="1"),
        )
        assert done.stdout.split() == ["--respect-gitignore", "--revert", "--report", "--recurse", "--resume"]

    def test_a_path_cannot_break_the_line(self) -> None:
        assert run("a\n\x1b[31m.py").err == "a\\n\\x1b[31m.py: no such file; check the path\n"


class TestInterrupted:
    def test_ctrl_c_leaves_nothing_behind(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(*_: object) -> NoReturn:
            raise KeyboardInterrupt

        write("mnist.py")
        monkeypatch.setattr(os, "replace", interrupt)
        outcome = run("mnist.py", "--in-place")
        assert (outcome.code, outcome.err) == (130, "interrupted\n")
        assert listing() == ["mnist.py"]
        assert Path("mnist.py").read_bytes() == MODEL

    @pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
    def test_a_real_ctrl_c(self) -> None:
        # It waits for standard input for ever.
        process = subprocess.Popen(
            [sys.executable, "-m", "instrumentor", "ready.py", "-"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=process_environment(),
        )
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"ready.py: no such file")
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=100)
        assert (process.returncode, err) == (130, b"interrupted\n")

    @pytest.mark.skipif(os.name != "posix", reason="pipes as POSIX has them")
    def test_a_reader_that_has_gone(self) -> None:
        write("mnist.py")
        reader, writer = os.pipe()
        os.close(reader)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "instrumentor", "mnist.py", "--diff"],
                stdout=writer,
                stderr=subprocess.PIPE,
                check=False,
                env=process_environment(),
            )
        finally:
            os.close(writer)
        assert (done.returncode, done.stderr) == (141, b"")


def test_the_module_runs_as_a_script() -> None:
    write("mnist.py")
    done = subprocess.run(
        [sys.executable, "-m", "instrumentor.cli", "mnist.py"],
        capture_output=True,
        check=False,
        env=process_environment(),
    )
    assert done.returncode == 0
    assert files.OUTPUT_PREFIX + "mnist.py" in listing()
