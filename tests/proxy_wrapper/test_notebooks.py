"""`%%trace`: a cell runs as it does without, and leaves a trace of its own."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

IPython = pytest.importorskip("IPython", reason="`%%trace` is for IPython, which is not installed")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NET = """
import torch, torch.nn as nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
    def forward(self, x):
        return self.fc(x)

def train(model, steps=3):
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
"""

MADE = """torch.manual_seed(1)
made = Net()
train(made)
made.fc.weight.tolist()
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A shell in a folder of its own, with the extension loaded."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, __import__("sys").path)))
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    shell: Any = InteractiveShell.instance(config=config)
    run_cell(shell, "%load_ext proxy_wrapper")
    run_cell(shell, NET)
    yield shell
    shell.run_cell("%unload_ext proxy_wrapper")
    InteractiveShell.clear_instance()


def run_cell(shell: Any, text: str) -> Any:
    result = shell.run_cell(text, store_history=True)
    result.raise_error()
    return result.result


def records_of(folder: Path) -> list[list[dict[str, Any]]]:
    """The records of each run, in the order of the runs."""
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in sorted(folder.glob("*/*.jsonl"))]


def test_a_model_that_the_cell_makes_is_traced_from_the_start(
    shell: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_cell(shell, "other = Net()")
    expected = run_cell(shell, MADE)
    assert run_cell(shell, "%%trace\n" + MADE) == expected
    (records,) = records_of(tmp_path / "proxy_trace")
    assert sum(record["kind"] == "optimizer_step" for record in records) == 3
    assert {record["name"] for record in records if record["kind"] == "module"} == {"made", "made.fc"}
    assert records[-1]["kind"] == "run_end"
    assert "nothing looks wrong; the trace is in proxy_trace" in capsys.readouterr().err
    assert "Proxy" not in shell.user_ns


def test_a_model_that_has_a_name_is_traced_while_the_cell_runs(shell: Any, tmp_path: Path) -> None:
    run_cell(shell, "model = Net()")
    run_cell(shell, "%%trace --logdir other --every 2\ntrain(model, 4)")
    run_cell(shell, "train(model)")
    run_cell(shell, "%%trace --logdir other\ntrain(model)")
    first, second = records_of(tmp_path / "other")
    (root,) = (record for record in first if record["kind"] == "module" and record["name"] == "model")
    assert root["every"] == 2
    assert sum(record["kind"] == "optimizer_step" for record in second) == 3
    import proxy_wrapper.proxy as Proxy

    assert not Proxy.is_proxied(shell.user_ns["model"])


def test_a_model_that_an_object_holds_is_traced(shell: Any, tmp_path: Path) -> None:
    run_cell(shell, "model = Net()\nother = Net()")
    run_cell(
        shell,
        "class Trainer:\n    def __init__(self, net):\n        self.net = net\n"
        "    def run(self):\n        return train(self.net)\ntrainer = Trainer(model)",
    )
    run_cell(shell, "%%trace\ntrainer.run()")
    (records,) = records_of(tmp_path / "proxy_trace")
    assert {record["name"] for record in records if record["kind"] == "module"} == {"model", "model.fc"}
    assert sum(record["kind"] == "optimizer_step" for record in records) == 3


def test_an_error_has_the_lines_of_the_cell(shell: Any) -> None:
    failing = "model = Net()\nmodel(torch.ones(1, 3))\n"
    plain = shell.run_cell("#\n" + failing)
    traced = shell.run_cell("%%trace\n" + failing)
    assert type(traced.error_in_exec) is type(plain.error_in_exec) is RuntimeError
    lines = [traceback_line(result) for result in (plain, traced)]
    assert lines[0] == lines[1] == 3


def test_an_error_shows_the_cell_as_it_was_typed(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    shell.colors = "nocolor"
    failing = "model = Net()\nmodel(torch.ones(1, 3))\n"
    excerpts = []
    for cell in ("# %%trace --every 2\n" + failing, "%%trace --every 2\n" + failing):
        shell.run_cell(cell)
        shown = capsys.readouterr()
        lines = (shown.out + shown.err).splitlines()
        excerpts.append([line for line in lines if re.match(r"(-+> *\d+|  +[123]) ", line)][:3])
    assert excerpts[0] == excerpts[1]
    assert excerpts[0][0].endswith("# %%trace --every 2")


def test_a_cell_may_begin_with_what_python_wants_first(shell: Any, tmp_path: Path) -> None:
    run_cell(shell, "%%trace\nfrom __future__ import annotations\n" + MADE)
    assert len(records_of(tmp_path / "proxy_trace")) == 1


def test_a_cell_with_nothing_but_the_magic_says_so(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cell(shell, "%%trace") is None
    assert "nothing was traced" in capsys.readouterr().err


def test_the_magic_as_a_comment_traces_nothing(shell: Any, tmp_path: Path) -> None:
    run_cell(shell, "%%trace\n" + MADE)
    run_cell(shell, "# %%trace\n" + MADE)
    assert len(records_of(tmp_path / "proxy_trace")) == 1


def traceback_line(result: Any) -> int:
    """The line of the cell in the traceback of its error."""
    at = result.error_in_exec.__traceback__
    while "ipython-input" not in at.tb_frame.f_code.co_filename and "/ipykernel" not in at.tb_frame.f_code.co_filename:
        at = at.tb_next
    return int(at.tb_lineno)


def test_a_cell_without_models_says_so(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cell(shell, "%%trace\n1 + 1") == 2
    assert "nothing was traced: this cell neither uses a model" in capsys.readouterr().err


def test_an_option_that_does_not_exist_is_refused(shell: Any) -> None:
    result = shell.run_cell("%%trace --nonsense\n1 + 1")
    assert "unrecognized arguments: --nonsense" in str(result.error_in_exec)
