"""Statements that change only the copy that a mask selects are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.changed_copies import changed_copies
from tests.proxy_wrapper.source_patterns.found import found


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        pytest.param("labels[labels == 0].fill_(-100)", "labels[labels == 0]", id="compared with itself"),
        pytest.param("x[torch.isnan(x)].zero_()", "x[torch.isnan(x)]", id="a function of torch"),
        pytest.param("x[~torch.isfinite(x)][0] = 1", "x[~torch.isfinite(x)]", id="an item is assigned"),
        pytest.param("x[(x > 0) & keep][:, 1] += 1", "x[(x > 0) & keep]", id="an item is added to"),
        pytest.param("mask = places < ends.unsqueeze(1)\nlabels[mask].fill_(0)", "labels[mask]", id="a variable"),
        pytest.param("self.x[mask.bool()].mul_(2)", "self.x[mask.bool()]", id="an attribute"),
    ],
)
def test_a_changed_copy_is_found(text: str, copy: str) -> None:
    assert [names for _, names in found(text, changed_copies)] == [(copy,)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("labels[labels == 0] = -100", id="assigned"),
        pytest.param("x[x < 0] *= 2", id="multiplied"),
        pytest.param("x[0].fill_(1)", id="a row"),
        pytest.param("x[:, 1:].zero_()", id="a slice"),
        pytest.param("x[index].zero_()", id="an unknown index"),
        pytest.param("rows[~i][j] = 1", id="a row from the end"),
        pytest.param("buffers[step > 10].zero_()", id="one of two buffers"),
        pytest.param("kept = x[x > 0].mul_(2)", id="the copy is used"),
        pytest.param("out.append(x[x > 0].mul_(2))", id="the copy is handed on"),
        pytest.param("tables[name in known][0] = 1", id="one of two tables"),
        pytest.param("mask = x > x.view(-1)\nmask = 0\ny[mask].zero_()", id="the index is assigned again"),
    ],
)
def test_what_changes_more_than_a_copy_is_not(text: str) -> None:
    assert found(text, changed_copies) == []
