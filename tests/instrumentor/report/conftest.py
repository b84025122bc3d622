"""Records of a few scripts, for every kind of report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from instrumentor.engine.outcome import Task
from instrumentor.engine.work import process
from instrumentor.report.record import record_file
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    from instrumentor.report.record import FileRecord

SCRIPTS = {
    "zoo/gan.py": b"import torch\nimport torch.nn as nn\nfrom somewhere import build\n\n\n"
    b"def main():\n    netG = nn.Linear(2, 2)\n    other = netG\n"
    + b"    # a comment\n"
    * 9
    + b"    late = other\n    late.train()\n    net = build()\n    net.parameters()\n"
    b"    loss = nn.MSELoss()\n    return [nn.Linear(1, 2)], loss, '<b>&amp;`x`'\n",
    "zoo/deep/plain.py": b"import torch.nn as nn\n\nnet = nn.Linear(1, 1)\n",
    "zoo/deep/done.py": b"print('nothing')\n",
    "zoo/bad.py": b"import torch.nn\nx = (\n",
    "zoo/with blank ä.py": b"import torch.nn as nn\nx = nn.Linear(1, 1) if 1 else nn.Linear(2, 2)",
}


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[FileRecord]:
    """What became of `SCRIPTS`."""
    monkeypatch.chdir(tmp_path)
    made = []
    for name, content in SCRIPTS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        task = Task(str(path), name, name, Settings(), goal="explain")
        record = record_file(task, process(task), written_to=None, diff_to=name)
        # Whatever the analysis is sure of, the reports are to show more than one degree of it.
        sites = tuple(replace(each, confidence="likely") if each.target == "net" else each for each in record.sites)
        made.append(replace(record, sites=sites))
    return made
