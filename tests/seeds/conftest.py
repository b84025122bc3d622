"""The text log that the MNIST example leaves, as the first descriptions of this project show it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings
from tests.python_process.run_python import run_python

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
MADE = b"optim.Adadelta(model.parameters(), lr=args.lr)"
ARGUMENTS = ["--epochs", "1", "--train-samples", "24", "--test-samples", "8", "--batch-size", "8", "--no-accel"]


@pytest.fixture(scope="session")
def mnist_log(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """A function that gives the lines of the log of the MNIST example, trained with an optimizer of this name."""
    logs: dict[str, list[str]] = {}

    def lines(optimizer: str) -> list[str]:
        if optimizer not in logs:
            folder = tmp_path_factory.mktemp(optimizer)
            source = (ROOT / "examples" / "mnist.py").read_bytes()
            assert source.count(MADE) == 1
            # One tensor after the other, as the optimizers of torch did when the logs were written.
            source = source.replace(MADE, f"optim.{optimizer}(model.parameters(), lr=args.lr, foreach=False)".encode())
            wanted = Settings(logdir=str(folder / "mnist.log"), log_level="DEBUG", statistics_of="all")
            script = folder / "instrumented_mnist.py"
            script.write_bytes(instrument_source(source, wanted, source_name="mnist.py").instrumented)
            environment = {"PYTHONPATH": str(ROOT / "runtime"), "OMP_NUM_THREADS": "1", "PATH": ""}
            done = run_python([script, *ARGUMENTS], cwd=folder, env=environment)
            assert (done.returncode, done.stderr) == (0, "")
            logs[optimizer] = (folder / "mnist.log").read_text().splitlines()
        return logs[optimizer]

    return lines
