"""Two traced runs of one program are told to be the same, or from which step on they are not, and why."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F

import proxy_wrapper.proxy as Proxy
from proxy_trace.open_trace import open_trace
from tests.proxy_wrapper.programs import Plain, images, labels

if TYPE_CHECKING:
    from pathlib import Path


LEVELS = [(level, choice) for level in ("INFO", "DEBUG") for choice in ("state", "outputs", "all")]


def run(logdir: Path, *, seed: int = 0, rate: float = 0.1, dropped_from: int = 10) -> None:
    """Train with a learning rate that is `rate` from the third step on, and without the last image from a step on."""
    torch.manual_seed(seed)
    model = Proxy.Proxy(Plain(), recurse=True, name="net", logdir=logdir)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        if step == 3:
            optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        kept = slice(None, -1) if step >= dropped_from else slice(None)
        F.cross_entropy(model(images()[kept]), labels()[kept]).backward()
        optimizer.step()
    Proxy.unproxy(model)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, None, id="the same"),
        pytest.param({"seed": 1}, ("start", -1), id="another seed"),
        pytest.param({"rate": 0.2}, ("parameter", 3), id="another learning rate"),
        pytest.param({"dropped_from": 4}, ("gradient", 4), id="other data"),
    ],
)
def test_what_differs_first(options: dict[str, int], expected: tuple[str, int] | None, tmp_path: Path) -> None:
    run(tmp_path / "first")
    run(tmp_path / "second", **options)
    found = open_trace(tmp_path / "first").compare_with(open_trace(tmp_path / "second"))
    assert found.steps == 6
    earliest = found.differences[0] if found.differences else None
    assert (earliest and (earliest.kind, earliest.first_step)) == expected


def test_runs_recorded_in_different_detail_agree_as_far_as_they_go(tmp_path: Path) -> None:
    for level, choice in LEVELS:
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 2)
        Proxy.Proxy(model, name="net", logdir=tmp_path / (level + choice), log_level=level, statistics=choice)
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(3):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        Proxy.unproxy(model)
    parted = []
    for first, second in itertools.permutations(LEVELS, 2):
        traces = [open_trace(tmp_path / (level + choice)) for level, choice in (first, second)]
        found = traces[0].compare_records_with(traces[1])
        assert found.records > 30
        assert found.limits  # It is said what could not be compared.
        if found.partings or found.counts:
            parted.append((first, second, found.partings[:1]))
    assert parted == []
