"""Indices of the largest score of a whole batch are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.whole_argmax import whole_argmax
from tests.proxy_wrapper.source_patterns.found import found

LOOP = """
for x, y in loader:
    out = model(x)
    {}
"""


@pytest.mark.parametrize(
    "lines",
    [
        "correct += (out.argmax() == y).sum().item()",
        "correct += (torch.argmax(out) == y).float().mean()",
        "correct += torch.sum(y == out.argmax())",
        "correct += out.argmax().eq(y).sum()",
        "pred = torch.argmax(out)\n    correct += (pred == y).sum()",
    ],
)
def test_one_index_that_is_compared_with_all_labels(lines: str) -> None:
    assert [(line, names[1]) for line, names in found(LOOP.format(lines), whole_argmax)] == [(4, "y")]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param("correct += (out.argmax(1) == y).sum()", id="a dimension"),
        pytest.param("correct += (out.argmax(dim=-1) == y).sum()", id="a dimension by name"),
        pytest.param("correct += (torch.argmax(out, 1) == y).sum()", id="a dimension of the function"),
        pytest.param("correct += int(out.argmax() == y)", id="one sample"),
        pytest.param("correct += (out.argmax() == y.argmax()).sum()", id="one sample of a one-hot label"),
        pytest.param("correct += (out.argmax() == goal).sum()", id="not a label of the batch"),
        pytest.param("pred = out.argmax()\n    pred = f(pred)\n    n += (pred == y).sum()", id="computed further"),
    ],
)
def test_other_indices(lines: str) -> None:
    assert found(LOOP.format(lines), whole_argmax) == []


@pytest.mark.parametrize("imported", ["import torch as th", "import torch as th, os", "from torch import argmax as th"])
def test_torch_under_another_name(imported: str) -> None:
    text = f"{imported}\nfor x, y in loader:\n    correct += (th.argmax(model(x)) == y).sum()\n"
    assert bool(found(text, whole_argmax)) == imported.startswith("import")
