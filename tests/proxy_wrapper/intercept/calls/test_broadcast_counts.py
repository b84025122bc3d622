"""Counts of correct predictions over all pairs are told by the shapes at a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from proxy_trace.checks import metrics
from tests.proxy_trace.checks.judged import find

if TYPE_CHECKING:
    from pathlib import Path


def count(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> int:
    """How many outputs of a model have the sign of their label."""
    out = model(x)
    return int(((out > 0).float() == y).sum().item())


def count_classes(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> int:
    """How many outputs of a model have their largest score where the label says."""
    scores = model(x)
    return int((scores.argmax(dim=1) == y).sum())


@pytest.mark.parametrize(
    ("features", "labels", "is_told"),
    [
        pytest.param(1, (6,), True, id="a column of outputs"),
        pytest.param(1, (6, 1), False, id="two columns"),
        pytest.param(1, (1,), False, id="one label"),
    ],
)
def test_outputs_that_are_compared_with_labels_of_another_shape(
    tmp_path: Path, features: int, labels: tuple[int, ...], is_told: bool
) -> None:
    model = Proxy.Proxy(nn.Linear(3, features), recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    for _ in range(3):
        count(model, torch.randn(6, 3), torch.ones(labels))
    Proxy.unproxy(model)
    found = [(each.code, each.name) for each in find(tmp_path, metrics.CHECK)]
    assert found == [("metric-broadcasts", "model")] * is_told


def count_selected(model: nn.Module, x: torch.Tensor, y: torch.Tensor, mask: torch.Tensor | int) -> int:
    """How many of the selected outputs of a model have the sign of their label."""
    return int(((model(x)[mask] > 0).float() == y[mask]).sum().item())


@pytest.mark.parametrize(
    ("mask", "is_told"),
    [(torch.arange(6) > 2, True), (torch.tensor([0, 3]), True), (4, False)],
    ids=["a mask", "indices", "one number"],
)
def test_selected_outputs(tmp_path: Path, mask: torch.Tensor | int, is_told: bool) -> None:
    model = Proxy.Proxy(nn.Linear(3, 1), recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    count_selected(model, torch.randn(6, 3), torch.ones(6), mask)
    Proxy.unproxy(model)
    assert [each.code for each in find(tmp_path, metrics.CHECK)] == ["metric-broadcasts"] * is_told


@pytest.mark.parametrize(("labels", "is_told"), [((6, 1), True), ((6,), False), ((1, 6), False)])
def test_classes_that_are_compared_with_a_column_of_labels(
    tmp_path: Path, labels: tuple[int, ...], is_told: bool
) -> None:
    model = Proxy.Proxy(nn.Linear(3, 4), recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    count_classes(model, torch.randn(6, 3), torch.ones(labels, dtype=torch.long))
    Proxy.unproxy(model)
    assert [each.code for each in find(tmp_path, metrics.CHECK)] == ["metric-broadcasts"] * is_told


@pytest.mark.parametrize(
    ("scores", "samples", "is_told"), [(1, 6, True), (2, 6, False), (1, 1, False)], ids=["one", "two", "of one sample"]
)
def test_the_index_of_a_single_score(tmp_path: Path, scores: int, samples: int, is_told: bool) -> None:
    model = Proxy.Proxy(nn.Linear(3, scores), recurse=True, name="model", logdir=tmp_path, log_level=Proxy.INFO)
    count_classes(model, torch.randn(samples, 3), torch.ones(samples, dtype=torch.long))
    Proxy.unproxy(model)
    found = find(tmp_path, metrics.CHECK)
    assert [each.code for each in found] == ["argmax-of-one-score"] * is_told
    line = count_classes.__code__.co_firstlineno + 3
    assert [each.place.rpartition(":")[2] for each in found] == [str(line)] * is_told
