"""Samples that a data set views with their own sizes in another order are found by its values."""

from __future__ import annotations

import ast
import textwrap
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from proxy_wrapper.source_patterns.reshaped_samples import reshaped_samples

IMAGES = torch.zeros(2, 6, 5, 3)


def found(code: str, **attributes: Any) -> list[tuple[int, tuple[str, ...]]]:
    """What is found in a `__getitem__` with that code, of a data set with such attributes."""
    (function,) = ast.parse("def __getitem__(self, i):\n" + textwrap.indent(code, "    ")).body
    assert isinstance(function, ast.FunctionDef)
    return [(each.line, each.names) for each in reshaped_samples(function, SimpleNamespace(**attributes))]


@pytest.mark.parametrize(
    "code",
    [
        "return torch.from_numpy(self.images[i]).reshape(3, 6, 5)",
        "x = self.images[i]; x2 = torch.tensor(x / 255).float(); return x2.view(3, self.height, 5), 1",
        "return self.images[i].astype('float32').reshape((3, 6, 5))",
        "return np.reshape(self.images[i], (3, 6, 5))",
    ],
)
def test_a_view_that_reorders_the_sizes(code: str) -> None:
    assert found(code, images=IMAGES.numpy(), height=6) == [(2, ("6, 5, 3", "3, 6, 5"))]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("return torch.from_numpy(self.images[i]).permute(2, 0, 1)", id="permuted"),
        pytest.param("return self.images[i].permute(2, 0, 1).reshape(3, 6, 5)", id="permuted before"),
        pytest.param("return self.flat[i].reshape(3, 6, 5)", id="flat"),
        pytest.param("return self.images[i].reshape(6, 5, 3)", id="as it is"),
        pytest.param("return self.grey[i].reshape(1, 6, 5)", id="one channel"),
        pytest.param("return self.images[i].reshape(9, 2, 5)", id="other sizes"),
        pytest.param("return self.load(i).reshape(3, 6, 5)", id="what a function returns"),
    ],
)
def test_other_views_are_not(code: str) -> None:
    assert found(code, images=IMAGES, flat=torch.zeros(2, 90), grey=torch.zeros(2, 6, 5, 1)) == []
