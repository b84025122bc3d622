"""The distributed example, instrumented as a user would: the same losses and weights, one run; and its bug is found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pytest
import torch

from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings
from tests.python_process.run_python import run_python

if TYPE_CHECKING:
    import subprocess

ROOT = Path(__file__).parents[2]
NAME = "distributed_transformer.py"
SOURCE = (ROOT / "examples" / NAME).read_bytes()


class Outcome(NamedTuple):
    """What a launch printed, and the folder with the weights of each process and the trace."""

    stdout: str
    folder: Path

    def weights(self, rank: int) -> dict[str, torch.Tensor]:
        weights: dict[str, torch.Tensor] = torch.load(self.folder / f"weights.{rank}", weights_only=True)
        return weights


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "runtime")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return run_python(["-m", *command], cwd=folder, env=environment)


def train(source: bytes, folder: Path, *options: str) -> Outcome:
    (folder / NAME).write_bytes(source)
    arguments = ["--standalone", "--nproc-per-node=2", NAME, "--steps=10", "--log-interval=1", "--save-path=weights"]
    done = run(["torch.distributed.run", *arguments, *options], folder)
    assert done.returncode == 0, done.stderr
    assert "proxy_wrapper: " not in done.stderr
    return Outcome(done.stdout, folder)


@pytest.fixture(scope="module")
def instrumented() -> bytes:
    return instrument_source(SOURCE, Settings(), source_name=NAME).instrumented


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--strategy=ddp", "--bug-step=6"), id="DDP with a LayerNorm whose all-reduce is skipped"),
        pytest.param(
            ("--strategy=fsdp",),
            id="FSDP2",
            marks=pytest.mark.skipif(
                not hasattr(torch.cpu.Stream, "record_event"), reason="this torch has no FSDP2 on the CPU"
            ),
        ),
    ],
)
def test_the_same_losses_and_weights_and_one_run_in_which_the_bug_shows(
    options: tuple[str, ...], instrumented: bytes, tmp_path: Path
) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "traced").mkdir()
    plain = train(SOURCE, tmp_path / "plain", *options)
    traced = train(instrumented, tmp_path / "traced", *options)
    assert traced.stdout == plain.stdout
    assert len(plain.stdout.splitlines()) == 10
    for rank in range(2):
        before, after = plain.weights(rank), traced.weights(rank)
        assert list(before) == list(after)
        assert all(torch.equal(before[name], after[name]) for name in before)
    (folder,) = (path for path in (traced.folder / "proxy_trace").iterdir() if not path.name.startswith("."))
    assert sorted(path.name.partition("-")[0] for path in folder.glob("rank*")) == ["rank0", "rank1"]

    done = run(["proxy_trace", "ranks", "--format=json"], traced.folder)
    found = msgspec.json.decode(done.stdout)
    drifted = [(each["name"], each["first_step"], each["gradient_step"]) for each in found["drifted"]]
    if "--bug-step=6" in options:
        root = drifted[0][0].partition(".")[0]
        assert drifted == [(f"{root}.norm.bias", 6, 6), (f"{root}.norm.weight", 6, 6)]
        assert (found["parameters"], done.returncode) == (30, 1)
    else:
        assert drifted == []
        assert (found["parameters"], found["own_parts"], done.returncode) == (0, 30, 0)
    assert found["never_agreed"] == []
    assert found["steps"] == 10
