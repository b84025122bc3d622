"""A trace tells what is needed to read it, and neither the environment nor the data."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import proxy_wrapper.proxy as Proxy
from proxy_trace.reading.trace import Trace
from proxy_wrapper import events
from tests.python_process.run_python import run_python

SECRET_IN_ENVIRONMENT = "correct-horse-battery-staple"
SECRET_NAME = "PLANTED_API_TOKEN"
# Numbers that nothing else in a run is equal to: not the shapes, the statistics or the times. They stand inside of
# tensors, where neither minimum nor maximum shows them.
SECRET_IN_DATA = 0.7310585786300049
SECRET_LABEL = 736251
SECRET_WEIGHT = 0.1234567890123456
SECRET_TEXT = "patient-4711-diagnosis"

SCRIPT = f"""
import torch
import proxy_wrapper.proxy as Proxy

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
with torch.no_grad():
    model[0].weight.uniform_(-1, 1)
    model[0].weight[1, 1] = {SECRET_WEIGHT}
model = Proxy.Proxy(model, recurse=True, name="model", logdir="LOGDIR", log_level="LEVEL")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
sentence = "{SECRET_TEXT}"
for _ in range(2):
    optimizer.zero_grad()
    data = torch.tensor([[-5.0, {SECRET_IN_DATA}, 5.0], [1.0, {SECRET_IN_DATA}, 2.0]])
    labels = torch.tensor([0, {SECRET_LABEL}, 2**40])
    sentence_hash = [ord(letter) for letter in sentence]
    loss = model(data).sum()
    loss.backward()
    optimizer.step()
labels[1].item()
"""


def trace_of(tmp_path: Path, level: str, logdir: str) -> bytes:
    """All bytes that a run with secrets in it leaves behind, names of files included."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("LEVEL", level).replace("LOGDIR", logdir))
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(Proxy.__file__).parents[1]),
        SECRET_NAME: SECRET_IN_ENVIRONMENT,
        "OMP_NUM_THREADS": "1",
    }
    run_python(["train.py", "--lr", "0.1"], cwd=tmp_path, env=environment).check_returncode()
    left = [path for path in (tmp_path / logdir).rglob("*") if path.is_file()] or [tmp_path / logdir]
    return b"".join(str(path).encode() + path.read_bytes() for path in left)


def spellings(number: float) -> list[bytes]:
    """How a number might stand in a trace, whatever its precision."""
    return [repr(number)[:9].encode(), json.dumps(number)[:9].encode()]


@pytest.mark.parametrize("logdir", ["trace", "trace.log"])
def test_neither_environment_nor_data_is_in_a_trace(tmp_path: Path, logdir: str) -> None:
    left = trace_of(tmp_path, "INFO", logdir)
    assert len(left) > 1000
    for secret in (SECRET_IN_ENVIRONMENT, SECRET_NAME, SECRET_TEXT, str(SECRET_LABEL)):
        assert secret.encode() not in left
    for number in (SECRET_IN_DATA, SECRET_WEIGHT):
        assert not any(spelling in left for spelling in spellings(number))


def test_the_header_has_what_is_needed_to_read_a_trace_and_no_more(tmp_path: Path) -> None:
    trace_of(tmp_path, "INFO", "trace")
    (file,) = Trace.open(tmp_path / "trace").files
    header = json.loads(file.path.read_bytes().splitlines()[0])
    assert (header["script"], header["argv"]) == ("train.py", ["--lr", "0.1"])
    assert set(header) <= {"kind", *events.Run.__struct_fields__}
    assert set(events.Run.__struct_fields__) <= {
        "format", "run", "started", "pid", "script", "argv", "python", "torch", "version", "rank", "world_size",
        "ranks", "parent_pid", "host", "compiled",
    }  # fmt: skip


def test_debug_is_what_asks_for_values_that_the_program_reads(tmp_path: Path) -> None:
    """And for those alone: a scalar that the script itself turned into a number of Python."""
    left = trace_of(tmp_path, "DEBUG", "trace")
    assert str(SECRET_LABEL).encode() in left
    (file,) = Trace.open(tmp_path / "trace").files
    holders = {type(event) for event in file.read() if str(SECRET_LABEL) in repr(event)}
    assert holders == {events.ReadValue}
    for secret in (SECRET_IN_ENVIRONMENT, SECRET_NAME, SECRET_TEXT):
        assert secret.encode() not in left
    for number in (SECRET_IN_DATA, SECRET_WEIGHT):
        assert not any(spelling in left for spelling in spellings(number))
