"""The rewriter as a codemod of LibCST gives what `instrument` gives."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import libcst as cst
import pytest
from libcst.codemod import CodemodContext, SkipFile

from instrumentor.codemod import Instrument
from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings
from tests.instrumentor.test_fixtures import CASES, FIXTURES, read_settings

if TYPE_CHECKING:
    from pathlib import Path

PATTERNS = [
    "import torch.nn as nn\nnet = nn.Linear(2, 2)",  # no line end
    "import torch.nn as nn; net = nn.Linear(2, 2); other = (nn.Linear(2, 2))\n",
    "from torch.nn import Linear\r\nif 1: net = Linear(2, 2)\r\nprint(Linear(2, 2)(net))\r\n",
    "import torch.nn as nn\nfor net in (nn.Linear(2, 2), nn.Linear(2, 3)):\n    # each\n    net.train()\n",
    "import torch.nn as nn\nfor net in [nn.Linear(2, 2) for _ in range(2)]: net.train()\n",
    "'''Doc.'''\n# first\nnet = __import__('torch').nn.Linear(2, 2)\nnet.train()\n",
    "import torch.nn as nn\ndef f():\n\tdef g(net=nn.Linear(2, 2)):\n\t\treturn net\n\treturn g\n",
    "import torch.nn as nn\nif 0:\n    pass\nelif nn.Linear(2, 2).weight.sum():\n    pass\n",
    "import torch.nn as nn\nx, y = nn.Linear(2, 2), nn.Linear(3, 3)  # both\n",
    "é = 'ü'; from torch import nn\nß = nn.Linear(2, 2); print(f'{ß}')\n",
]


def change(source: bytes, settings: Settings | None = None, filename: str | None = None) -> bytes:
    return Instrument(CodemodContext(filename=filename), settings).transform_module(cst.parse_module(source)).bytes


@pytest.mark.parametrize("case", CASES)
def test_a_fixture_becomes_what_instrument_makes_of_it(case: str, tmp_path: Path) -> None:
    before = (FIXTURES / case / "before.py").read_bytes()
    after = FIXTURES / case / "after.py"
    found = change(before, read_settings(before), str(tmp_path / "before.py"))
    assert found.decode() == (after.read_bytes() if after.exists() else before).decode()


@pytest.mark.parametrize("source", PATTERNS)
def test_other_text_becomes_what_instrument_makes_of_it(source: str) -> None:
    wanted = instrument_source(source.encode(), Settings(), source_name="<stdin>")
    assert change(source.encode(), Settings()).decode() == wanted.instrumented.decode()


def test_what_is_instrumented_stays() -> None:
    once = change(b"import torch.nn as nn\nnet = nn.Linear(2, 2)\nnet.train()\n")
    assert once.count(b"Proxy.Proxy(") == 1
    assert change(once) == once


def test_what_was_edited_since_is_skipped() -> None:
    edited = change(b"import torch.nn as nn\nnet = nn.Linear(2, 2)\nnet.train()\n").replace(b"train", b"eval")
    with pytest.raises(SkipFile, match="edited since"):
        change(edited)


def test_the_tool_of_libcst_finds_it_and_reads_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.instrumentor]\nlogdir = "elsewhere"\n')
    script, original = tmp_path / "train.py", "from nets import Net\nnet = Net()\n"
    script.write_text(original)
    (tmp_path / "nets.py").write_text("from torch import nn\nclass Net(nn.Linear): ...\n")
    tool = ["-m", "libcst.tool", "codemod", "-x", "--no-format", "-j1", "instrumentor.codemod.Instrument"]
    done = subprocess.run([sys.executable, *tool, "."], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    by_tool = script.read_text()
    assert 'logdir="elsewhere"' in by_tool
    script.write_text(original)
    command = [sys.executable, "-m", "instrumentor", "--in-place", str(script), "--no-cache"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert script.read_text() == by_tool
