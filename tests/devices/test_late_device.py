"""What is promised of any device, tried on one that does its work late.

A kind of device is made known to torch for a whole process, and before its first backward pass. So each file of
`suite/` runs in a process of its own; to run one by hand: `python -m pytest tests/devices/suite/check_device.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from torch.utils import backend_registration

from tests.python_process.run_python import run_python

SUITE = Path(__file__).parent / "suite"


@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this version of PyTorch has no devices that are written in Python",
)
@pytest.mark.parametrize("file", sorted(path.name for path in SUITE.glob("check_*.py")))
def test_suite(file: str, request: pytest.FixtureRequest) -> None:
    all_cases = ["--all-cases"] if request.config.getoption("--all-cases") else []
    command = ["-m", "pytest", str(SUITE / file), "-p", "no:cacheprovider", *all_cases]
    done = run_python(command, cwd=SUITE.parents[2], env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
