"""A text log and a JSON Lines trace of one run say the same: one renderer makes both."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_trace.events.log import log_lines
from proxy_trace.reading.trace import Trace
from proxy_wrapper import events
from proxy_wrapper.process.launch import Rank
from proxy_wrapper.writing.sinks.json_lines import JsonLinesSink
from proxy_wrapper.writing.sinks.text_log import TextLogSink
from tests.proxy_trace.conftest import make_run
from tests.proxy_trace.generated_records import records

if TYPE_CHECKING:
    from proxy_wrapper.events import AnyEvent


def as_text(folder: Path) -> bytes:
    """What `proxy-trace log` prints of a trace."""
    return "".join(f"{line}\n" for line in log_lines(Trace.open(folder))).encode()


class Net(nn.Module):
    scale: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
        self.head = nn.Linear(4, 2)
        self.register_buffer("scale", torch.tensor(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x)
        if x.mean() > 0:
            x = x * self.scale
        out: torch.Tensor = self.head(x)
        return out


def train(logdir: str, level: str) -> None:
    """A run with everything in it: two stages, a frozen layer, NaN, a failing call, weights loaded by hand."""
    torch.manual_seed(0)
    model = Proxy.Proxy(Net(), recurse=True, name="net", logdir=logdir, log_level=level)
    model.head.bias.requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for step in range(4):
        optimizer.zero_grad()
        loss = model(torch.randn(5, 3)).square().mean()
        loss.backward()
        optimizer.step()
        if step == 2:
            model.load_state_dict({name: tensor * 2 for name, tensor in model.state_dict().items()})
    model.eval()
    with Proxy.stage("validation"), torch.no_grad():
        model(torch.full((2, 3), torch.nan)).sum().item()
        with pytest.raises(RuntimeError):
            model(torch.zeros(2, 7))
    with torch.no_grad():
        model.head.weight.div_(0)
    Proxy._installed.take_down()


def test_a_run_reads_the_same_either_way(tmp_path: Path, level: str) -> None:
    train(str(tmp_path / "run.log"), level)
    train(str(tmp_path / "trace"), level)
    written = (tmp_path / "run.log").read_bytes()
    assert written == as_text(tmp_path / "trace")
    assert written.count(b"\n") > 200
    assert b"WARNING:root:First NaN or infinity in parameter 'net.head.weight'" in written


@settings(max_examples=60, deadline=None)
@given(generated=st.lists(records(events.Run), max_size=40))
def test_records_of_every_kind_read_the_same_either_way(generated: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(rank=0, world_size=1)
        write_both(Path(folder), run, generated)
        assert Path(folder, "run.log").read_bytes() == as_text(Path(folder, "trace"))


def write_both(folder: Path, run: events.Run, happened: list[AnyEvent]) -> None:
    for sink in (
        TextLogSink(str(folder / "run.log"), run),
        JsonLinesSink(str(folder / "trace"), run, lambda: Rank(0, 1)),
    ):
        sink.write(happened)
        sink.close()
