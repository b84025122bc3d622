"""Type checkers see `Proxy.Proxy(model)` as `model`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_mypy_gives_the_model_s_own_type(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import proxy_wrapper.proxy as Proxy\n"
        "from torch import nn\n"
        "model = Proxy.Proxy(nn.Linear(1, 2), recurse=True, name='m', logdir='d', log_level=Proxy.INFO)\n"
        "reveal_type(model)\n"
        "reveal_type(Proxy.unproxy(model))\n"
        "Proxy.Proxy(model, recurse=3.5)\n"
    )
    runtime = Path(__file__).parents[2] / "runtime"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", str(script)],
        env={"MYPYPATH": str(runtime), "PATH": "", "MYPY_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.count('Revealed type is "torch.nn.modules.linear.Linear"') == 2, done.stdout + done.stderr
    assert 'Argument "recurse" to "__call__" of "ProxyType" has incompatible type "float"' in done.stdout
