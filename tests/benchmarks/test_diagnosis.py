"""The benchmark of diagnoses runs pairs and further scripts from end to end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import diagnosis

if TYPE_CHECKING:
    from pathlib import Path

NEVER_CALLED = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.used = torch.nn.Linear(2, 2)
        self.unused = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.used(x)


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = model(torch.ones(4, 2)).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_pair_is_run_and_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert diagnosis.main(["--pair", "columns_in_their_own_units", "--format", "json"]) == 0
    printed = capsys.readouterr()
    (verdict,) = json.loads(printed.out)["pairs"]
    assert verdict["expected"] == "inputs-not-normalized"
    assert verdict["verdict"] != "failed", verdict["problem"]
    assert not verdict["false_alarms"]
    assert printed.err.startswith("1/1 columns_in_their_own_units (inputs-not-normalized): ")


def test_alarms_on_further_scripts_are_false(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text(NEVER_CALLED, encoding="utf-8")
    broken = tmp_path / "broken.py"
    broken.write_text(NEVER_CALLED + "raise ValueError('no data')\n", encoding="utf-8")
    assert diagnosis.main(["--no-pairs", "--script", str(script), str(broken), "--jobs", "2", "--format", "json"]) == 0
    printed = capsys.readouterr()
    (alarms,) = json.loads(printed.out)["scripts"].values()
    assert alarms
    assert "ValueError: no data" in printed.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.py", "train.py"]


def test_an_unknown_pair_is_said() -> None:
    with pytest.raises(SystemExit, match="No pair is named nonsense"):
        diagnosis.main(["--pair", "nonsense"])
