"""What is trained under `instrument run` is what is trained under `python`, bit for bit, and there is a trace of it."""

from __future__ import annotations

import json
import sys
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest
import torch

from tests.instrumentor.running.conftest import plainly, run_in, split_last_line, traced
from tests.instrumentor.running.programs import TRAINING

if TYPE_CHECKING:
    from pathlib import Path


def records_in(folder: Path) -> list[dict[str, Any]]:
    """All records of all runs in a `logdir`."""
    files = sorted(folder.glob("*/*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def assert_same_weights(folder: Path, plain: Path) -> None:
    """Compare what two runs of a program have saved."""
    first, second = (torch.load(each) for each in (plain, folder / "weights.pt"))
    assert list(first) == list(second)
    assert all(torch.equal(first[name], second[name]) for name in first)


def move_weights(folder: Path) -> Path:
    """Keep the weights that a plain run has saved from those of the next one."""
    return (folder / "weights.pt").rename(folder.parent / "plain.pt")


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", TRAINING)
def test_training_is_the_same_and_traced(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "program.py").write_text(TRAINING[name].lstrip())
    plain = run_in(folder, plainly("program.py"))
    has_weights = (folder / "weights.pt").exists()
    assert has_weights == ("weights.pt" in TRAINING[name]), plain.err
    weights = move_weights(folder) if has_weights else None
    with_proxies = run_in(folder, traced("program.py"))
    err, last = split_last_line(with_proxies.err)
    assert with_proxies._replace(err=err) == plain
    assert "the trace is in proxy_trace" in last
    if weights is not None:
        assert_same_weights(folder, weights)
    records = records_in(folder / "proxy_trace")
    assert sum(record["kind"] == "optimizer_step" for record in records) in {3, 4, 6}
    assert "model" in {record["name"] for record in records if record["kind"] == "module"}
    lines = TRAINING[name].lstrip().splitlines()
    places = {(record["file"], lines[record["line"] - 1].strip()) for record in records if record["kind"] == "location"}
    assert ("program.py", "optimizer.step()") in {(file.rpartition("/")[2], line) for file, line in places}
    assert "model = Net()" in {line for _, line in places}


def test_a_project_is_traced_with_entry(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "__init__.py").write_text("")
    (folder / "parts" / "work.py").write_text(TRAINING["a script"].partition("if __name__")[0])
    (folder / "parts" / "main.py").write_text(
        "import torch\nfrom parts.work import train\ntorch.save(train(1).state_dict(), 'weights.pt')\n"
    )
    plain = run_in(folder, plainly("-m", "parts.main"))
    weights = move_weights(folder)
    with_proxies = run_in(folder, traced("--entry", "-m", "parts.main"))
    err, last = split_last_line(with_proxies.err)
    assert with_proxies._replace(err=err) == plain
    assert_same_weights(folder, weights)
    assert "nothing looks wrong" in last
    assert sum(record["kind"] == "optimizer_step" for record in records_in(folder / "proxy_trace")) == 6
    with_proxies = run_in(folder, traced("-m", "parts.main"))  # which makes no model of its own
    assert "nothing looks wrong" in split_last_line(with_proxies.err)[1]
    assert_same_weights(folder, weights)
    assert sum(record["kind"] == "optimizer_step" for record in records_in(folder / "proxy_trace")) == 12


def test_torch_is_loaded_when_the_script_loads_it(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    text = """
        import os, sys
        print([name for name in ("torch", "numpy", "msgspec", "libcst", "instrumentor") if name in sys.modules])
        import torch.nn as nn
        model = nn.Linear(2, 2)
        print("torch" in sys.modules)
        """
    (folder / "program.py").write_text(dedent(text))
    assert run_in(folder, traced("program.py")).out == "[]\nTrue\n"


def test_two_processes_of_torchrun_are_one_run(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    text = TRAINING["a script"].partition("if __name__")[0].replace("        print(step, loss.item())\n", "")
    text += """
import os
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(1)
wrapped = Net()
model = nn.parallel.DistributedDataParallel(wrapped)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    torch.manual_seed(10 * step + dist.get_rank())
    optimizer.zero_grad()
    model(torch.randn(4, 4)).sum().backward()
    optimizer.step()
if dist.get_rank() == 0:
    torch.save(wrapped.state_dict(), "weights.pt")
dist.barrier()
del model, optimizer
dist.destroy_process_group()
"""
    (folder / "program.py").write_text(text.lstrip())
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    plain = run_in(folder, [*launcher, "program.py"])
    assert plain.code == 0, plain.err
    weights = move_weights(folder)
    with_proxies = run_in(folder, [*launcher, "--no-python", *traced("program.py")])
    assert with_proxies.code == 0, with_proxies.err
    assert_same_weights(folder, weights)
    (run,) = (each for each in (folder / "proxy_trace").iterdir() if not each.name.startswith("."))
    assert [file.name[:5] for file in sorted(run.glob("*.jsonl"))] == ["rank0", "rank1"]
    assert with_proxies.err.count("instrument: ") == 1
