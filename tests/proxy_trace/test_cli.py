from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proxy_trace.cli import run_command
from proxy_trace.reading.trace import KINDS
from proxy_wrapper import __version__, events

if TYPE_CHECKING:
    from tests.proxy_trace.conftest import WriteTrace

ROOT = Path(__file__).parents[2]


def in_process(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "runtime")])}
    command = [sys.executable, "-W", "error", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_importing_the_command_loads_neither_torch_nor_rich() -> None:
    code = "import sys, proxy_trace.cli; print({'torch', 'libcst'} & set(sys.modules), 'rich.console' in sys.modules)"
    assert in_process("-c", code).stdout.split() == ["set()", "False"]


def test_summary_prints_the_report(small_trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["summary", str(small_trace)]) == 0
    output = capsys.readouterr().out
    assert output.startswith("train.py --epochs 1\n")
    assert "model.spare  never called" in output


def test_summary_as_json_has_everything(small_trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["summary", str(small_trace), "--format", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["findings"][0]["name"] == "model.spare"
    checks = {check["name"]: check["state"] for check in summary["checks"]}
    of_structure = ("layers", "registration", "activations", "views", "targets", "results")
    passed = ("outputs", "losses", "gradients", "parameters", *of_structure, "training", "updates", "tracing")
    of_settings = (
        "steps",
        "clearing",
        "optimizers",
        "rates",
        "schedulers",
        "modes",
        "progress",
        "initial weights",
        "freezing",
        "signs",
    )
    not_checked = ("end", *of_settings, "loss functions", "inputs")
    assert checks == {
        **dict.fromkeys(passed, "passed"),
        **dict.fromkeys(("calls", "files"), "finding"),
        **dict.fromkeys(not_checked, "not checked"),
    }
    end = next(check for check in summary["checks"] if check["name"] == "end")
    assert (end["meaning"], end["unseen"]) == (
        "no process ended with an exception",
        ["the only process without an end"],
    )
    weight = summary["processes"][0]["tensors"][0]
    assert weight["last"] == {"minimum": -1.0, "maximum": 0.5, "norm": 2.0, "bits": "0000000000000002"}


def test_summary_of_one_rank(tmp_path: Path, write_trace: WriteTrace, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in (0, 1):
        write_trace(tmp_path / f"rank{rank}-{rank}.jsonl", rank=rank, pid=rank)
    assert run_command(["summary", str(tmp_path), "--rank", "1", "--format", "json"]) == 0
    assert [process["rank"] for process in json.loads(capsys.readouterr().out)["processes"]] == [1]


def test_show_prints_events_as_lines(small_trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--kind", "update", "--name", "*.weight", "--module", "model.fc", "--step", "1"]
    assert run_command(["show", str(small_trace), *options]) == 0
    _, line = capsys.readouterr().out.splitlines()
    assert line.endswith("train.py:10  model.fc.weight (step): min -1  max 0.5  norm 2")


def test_show_as_json_is_one_object_a_line(small_trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["show", str(small_trace), "--format", "json", "--limit", "2"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["kind"] for record in records] == ["run", "module"]


def test_log_prints_any_trace_as_text(tmp_path: Path, small_trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["log", str(small_trace)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("found the root object\n")
    text_log = tmp_path / "run.log"
    text_log.write_text(text)
    assert run_command(["log", str(text_log)]) == 0
    assert capsys.readouterr().out == text


@pytest.fixture
def two_stages(tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]) -> Path:
    """Training, then one call of the model under another name of the stage."""
    calls = [
        events.CallModule(9000, 2, 1, inputs=["float32[7]"], stage="validation"),
        events.ReturnModule(9100, 2, 1, outputs=["float32[8]"], duration_us=100, stage="validation"),
    ]
    return write_trace(tmp_path / "r" / "rank0-1.jsonl", *small_run, *calls)


@pytest.mark.parametrize("glob", ["validation", "valid*", "none,validation"])
def test_a_stage_is_looked_at_alone(glob: str, two_stages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["show", str(two_stages), "--stage", glob]) == 0
    assert [line.split()[2:4] for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["validation", "call_module"],
        ["validation", "return_module"],
    ]
    assert run_command(["log", str(two_stages), "--stage", glob]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "INFO:root:Go to __call__ for object 'Net'",
        "INFO:root:Go to __init__ for object 'Tensor'",
    ]
    assert run_command(["summary", str(two_stages), "--stage", glob]) == 0
    assert "stages     validation (1 call)" in capsys.readouterr().out


def test_a_step_is_summed_up_alone(two_stages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["summary", str(two_stages), "--step", "1", "--format", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert (summary["steps"], summary["period"]) == (1, "step 1")


@pytest.mark.parametrize("command", [["show"], ["show", "--format", "json"], ["log"]], ids=" ".join)
def test_a_choice_that_nothing_meets_is_told(
    command: list[str], small_trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([*command, str(small_trace), "--name", "model.fc.wieght"]) == 0
    said = capsys.readouterr().err
    assert said.startswith(
        "proxy-trace: no event in this trace matches all these options; did you mean model.fc.weight"
    )


def test_without_a_run_it_is_the_newest_one_here(
    small_trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(small_trace.parents[1])
    assert run_command(["summary"]) == 0
    assert "20261121T080911-3f2a9c" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["summary"], "no RUN was given, and there is no 'proxy_trace' here", id="no run"),
        pytest.param(["summary", "nowhere"], "nowhere: no such file or directory", id="a path that is not there"),
        pytest.param(["summary", "."], "contains no trace", id="a directory without traces"),
        pytest.param(["show", "run.txt"], "run.txt: is a text log", id="a text log"),
        pytest.param(["show", "x", "--kind", "nan"], "no event kind 'nan'. Kinds are: run,", id="an unknown kind"),
        pytest.param(["show", "x", "--step", "last"], "'last' is not a range of steps", id="no step"),
        pytest.param(["show", "x", "--limit", "0"], "Invalid value for '--limit'", id="no limit"),
        pytest.param(["show", "x", "--frob"], "No such option", id="an unknown option"),
        pytest.param(["frob"], "No such command 'frob'. Try 'proxy-trace --help'.", id="an unknown command"),
        pytest.param(["rank"], "Try 'proxy-trace --help'.", id="a command misspelt"),
        pytest.param(["summary", "a", "b"], "unexpected extra argument", id="two runs"),
        pytest.param(["log", "run.txt", "--stage", "eval"], "is a text log", id="a text log has no stages"),
        pytest.param(["log", "run.txt", "--rank", "1"], "is a text log", id="a text log has no ranks"),
        pytest.param(["history"], "Missing argument '[RUN] WHAT'. Try 'proxy-trace history", id="a history of nothing"),
        pytest.param(["history", "x", "y", "z"], "give at most one RUN, and one WHAT", id="the histories of two"),
        pytest.param(
            ["history", "model.fc", "run.txt"], "RUN comes first: run.txt model.fc", id="RUN and WHAT swapped"
        ),
        pytest.param(["export", "x", "-f", "excel"], "Invalid value for '--format'", id="an unknown format"),
    ],
)
def test_a_mistake_is_told_in_one_line_with_exit_code_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.txt").write_text("found the root object\n")
    assert run_command(arguments) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert error.startswith("proxy-trace: error: ")
    assert error.count("\n") == 1
    assert message in error
    assert "?." not in error


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["-h"],
        ["summary", "-h"],
        ["show", "-h"],
        ["log", "--help"],
        ["history", "-h"],
        ["order", "-h"],
        ["export", "-h"],
        ["compare", "-h"],
    ],
)
def test_help_teaches_with_examples(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(arguments) == 0
    assert f"proxy-trace {arguments[0] if len(arguments) == 2 else 'summary'}" in capsys.readouterr().out


def test_the_help_of_show_has_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["show", "-h"]) == 0
    help_text = capsys.readouterr().out.partition("Kinds of events")[2].partition("Arguments")[0]
    assert set(KINDS) <= set(re.findall(r"\w+", help_text))


def test_the_usage_of_history_says_that_run_may_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["history", "-h"]) == 0
    assert "Usage: proxy-trace history [OPTIONS] [RUN] WHAT" in capsys.readouterr().out


def test_the_version_is_the_runtimes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--version"]) == 0
    assert capsys.readouterr().out == f"proxy-trace {__version__}\n"


def test_the_module_runs_as_the_command(small_trace: Path) -> None:
    result = in_process("-m", "proxy_trace", "show", small_trace, "--kind", "run")
    assert (result.returncode, result.stderr) == (0, "")
    assert "train.py --epochs 1" in result.stdout


def test_a_reader_that_goes_away_ends_it_quietly(
    tmp_path: Path, write_trace: WriteTrace, small_run: list[events.Event]
) -> None:
    path = write_trace(tmp_path / "a.jsonl", *small_run[:9], *small_run[9:] * 200)
    script = f"import os, subprocess, sys; r, w = os.pipe(); os.close(r); sys.exit(subprocess.call([sys.executable, '-m', 'proxy_trace', 'log', {str(path)!r}], stdout=w))"  # noqa: E501
    result = in_process("-c", script)
    assert (result.returncode, result.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [["summary"], ["summary", "--format", "json"], ["show"], ["log"]], ids=" ".join)
def test_a_full_disk_is_told_in_one_line(arguments: list[str], small_trace: Path) -> None:
    script = f"""if True:
        import os, sys; os.dup2(os.open("/dev/full", os.O_WRONLY), 1); sys.argv[1:] = {[*arguments, str(small_trace)]}
        from proxy_trace.cli import main; main()"""
    result = in_process("-c", script)
    assert result.returncode == 2
    assert result.stderr == "proxy-trace: error: standard output: cannot be written: No space left on device.\n"


def test_names_that_a_terminal_cannot_show_are_escaped(tmp_path: Path, write_trace: WriteTrace) -> None:
    path = write_trace(tmp_path / "a.jsonl", events.Problem(1, message="naïve → NaN"))
    result = in_process(
        "-X",
        "utf8=0",
        "-c",
        f"""if True:
        import sys; sys.stdout.reconfigure(encoding="ascii"); sys.argv[1:] = ["log", {str(path)!r}]
        from proxy_trace.cli import main; main()""",
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "na\\xefve \\u2192 NaN" in result.stdout
