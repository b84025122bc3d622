"""Arguments that stand in the wrong place are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_trace.checks import arguments
from proxy_wrapper import events
from tests.proxy_trace.checks.judged import NET, find

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.proxy_trace.conftest import WriteTrace

Y = (torch.arange(6) % 2).float()[:, None]
SOFT = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])


def right(out: torch.Tensor) -> None:
    """The triplet loss of three chunks."""
    a, p, n = out.chunk(3)
    F.triplet_margin_loss(a, p, n).backward()


def swapped(out: torch.Tensor) -> None:
    """The same, in another order."""
    a, p, n = out.chunk(3)
    F.triplet_margin_loss(a, n, p).backward()


def of_deviation(out: torch.Tensor) -> None:
    """A likelihood with a deviation."""
    std = F.softplus(out)
    F.gaussian_nll_loss(out, Y, std).backward()


def both_directions(out: torch.Tensor) -> None:
    """The cross entropy of both directions."""
    p = out.sigmoid()
    (F.binary_cross_entropy(p, Y) + F.binary_cross_entropy(Y.clamp(0.1, 0.9), p)).backward()


def test_exchanged_arguments_of_a_function_are_told(tmp_path: Path, write_trace: WriteTrace) -> None:
    places = (events.Location(3, "train.py", 21, "main"), events.Location(2, "train.py", 4, "train"))
    record = events.SourcePattern(1, what="arguments-exchanged", names=["train", "mode", "epoch"], made=3, other=2)
    (finding,) = find(write_trace(tmp_path / "a.jsonl", *places, NET, record), arguments.CHECK)
    assert (finding.code, finding.name, finding.place) == ("arguments-swapped", "train", "train.py:21")


@pytest.mark.parametrize(
    ("train", "told"),
    [
        pytest.param(swapped, "arguments-swapped", id="triplet"),
        pytest.param(of_deviation, "variance-or-deviation", id="deviation"),
        pytest.param(
            lambda out: F.binary_cross_entropy_with_logits(Y, out).backward(),
            "arguments-swapped",
            id="targets as logits",
        ),
        pytest.param(
            lambda out: F.binary_cross_entropy(Y.clamp(0.1, 0.9), out.sigmoid()).backward(),
            "arguments-swapped",
            id="targets as probabilities",
        ),
        pytest.param(
            lambda out: F.cross_entropy(SOFT, out.view(3, 2).sigmoid()).backward(), "", id="targets of no layer"
        ),
        pytest.param(
            lambda out: F.cross_entropy(SOFT, out.view(3, 2)).backward(), "arguments-swapped", id="targets of classes"
        ),
        pytest.param(lambda out: F.cross_entropy(out.view(3, 2), SOFT).backward(), "", id="right soft targets"),
        pytest.param(
            lambda out: (-(SOFT * out.view(3, 2)).sum() + out.square().sum()).backward(), "", id="weighted outputs"
        ),
        pytest.param(right, "", id="right triplet"),
        pytest.param(lambda out: F.binary_cross_entropy_with_logits(out, Y).backward(), "", id="right logits"),
        pytest.param(
            lambda out: F.binary_cross_entropy(out.sigmoid(), out.sigmoid()).backward(), "", id="two predictions"
        ),
        pytest.param(both_directions, "", id="both directions"),
    ],
)
def test_arguments_in_the_wrong_place(tmp_path: Path, train: Callable[[torch.Tensor], None], told: str) -> None:
    layer = Proxy.Proxy(nn.Linear(5, 1), recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    optimizer = torch.optim.SGD(layer.parameters(), 0.01)
    for _ in range(2):
        optimizer.zero_grad()
        train(layer(torch.randn(6, 5)))
        optimizer.step()
    Proxy.unproxy(layer)
    assert [each.code for each in find(tmp_path, arguments.CHECK)] == [told] * bool(told)
