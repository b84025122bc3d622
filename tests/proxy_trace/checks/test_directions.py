"""A reverse direction that is read after one step is told, and what reads it elsewhere is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_trace.checks import directions
from tests.proxy_trace.checks.judged import find

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Reading = Callable[[torch.Tensor, Any], torch.Tensor]

BATCH, STEPS, SIZE = 4, 5, 6


class Reader(nn.Module):
    """Classifies sequences by what `read` takes of a recurrent layer's output; by the last step without it."""

    def __init__(self, layer: type[nn.Module], read: Reading | None = None, **options: Any) -> None:
        super().__init__()
        self.rnn = layer(3, SIZE, batch_first=True, **options)
        self.head = nn.LazyLinear(2)
        self.read = read

    def forward(self, x: torch.Tensor, *state: Any) -> Any:
        out, states = self.rnn(x, *state)
        if self.read is not None:
            return self.head(self.read(out, states))
        return self.head(out[:, -1])


class ByNumber(Reader):
    def forward(self, x: torch.Tensor, *state: Any) -> Any:
        out, _ = self.rnn(x, *state)
        return self.head(out[:, STEPS - 1])


LINE_OF_LAST = Reader.forward.__code__.co_firstlineno + 4
LINE_OF_CALL = ByNumber.forward.__code__.co_firstlineno + 1


def told(model: nn.Module, tmp_path: Path, *state: Any, steps: int = 2, length: int = STEPS) -> list[str]:
    """The findings where a model is trained, each with its code, name and place."""
    x = torch.randn(BATCH, length, 3)
    model(x, *state)
    traced = Proxy.Proxy(model, recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    optimizer = torch.optim.AdamW(traced.parameters(), 0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        traced(x, *state).square().sum().backward()
        optimizer.step()
    Proxy.unproxy(traced)
    return [f"{each.code} {each.name} {each.place.rpartition('/')[2]}" for each in find(tmp_path, directions.CHECK)]


@pytest.mark.parametrize("layer", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("layers", [1, 2])
def test_the_last_step_of_both_directions(layer: type[nn.Module], layers: int, tmp_path: Path) -> None:
    model = Reader(layer, bidirectional=True, num_layers=layers)
    name = f"model.rnn.weight_hh_l{layers - 1}_reverse"
    assert told(model, tmp_path) == [f"reverse-reads-one-step {name} test_directions.py:{LINE_OF_LAST}"]


def test_where_the_line_is_unknown_the_call_of_the_layer_is_named(tmp_path: Path) -> None:
    (words,) = told(ByNumber(nn.LSTM, bidirectional=True), tmp_path)
    assert words.endswith(f"test_directions.py:{LINE_OF_CALL}")


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda out, _: torch.cat([out[:, -1, :SIZE], out[:, 0, SIZE:]], 1), id="each where it ends"),
        pytest.param(lambda _, states: torch.cat([states[-2], states[-1]], 1), id="the last states"),
        pytest.param(lambda out, _: out.mean(1), id="the mean"),
        pytest.param(lambda out, _: out.max(1).values, id="the maximum"),
        pytest.param(lambda out, _: torch.cat([out[:, -1], out[:, 0]], 1), id="both ends"),
        pytest.param(lambda out, _: (out @ out[:, -1].unsqueeze(2)).flatten(1), id="the last one as a query"),
        pytest.param(lambda out, _: out[:, STEPS // 2], id="the one in the middle"),
    ],
)
def test_what_depends_on_more_of_the_reverse_direction(read: Reading, tmp_path: Path) -> None:
    assert told(Reader(nn.GRU, read, bidirectional=True), tmp_path) == []


def test_one_direction(tmp_path: Path) -> None:
    assert told(Reader(nn.LSTM), tmp_path) == []


def test_sequences_of_one_step(tmp_path: Path) -> None:
    assert told(Reader(nn.LSTM, bidirectional=True), tmp_path, length=1) == []


def test_a_state_that_is_given(tmp_path: Path) -> None:
    state = torch.randn(2, BATCH, SIZE)
    assert told(Reader(nn.GRU, bidirectional=True), tmp_path, state) == []


def test_a_single_step_says_nothing(tmp_path: Path) -> None:
    assert told(Reader(nn.GRU, bidirectional=True), tmp_path, steps=1) == []
