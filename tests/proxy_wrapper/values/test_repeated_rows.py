"""Tables of positions in half precision repeat their rows, and other tables do not."""

from __future__ import annotations

import pytest
import torch

from proxy_wrapper.values.repeated_rows import repeated_rows


def sines(positions: torch.Tensor) -> torch.Tensor:
    angles = positions.float()[:, None] * 10000 ** (-torch.arange(4) / 4)
    return torch.cat([angles.sin(), angles.cos()], 1)


@pytest.mark.parametrize(("dtype", "exact"), [(torch.bfloat16, 256), (torch.float16, 2048)])
@pytest.mark.parametrize("then", [torch.float32, torch.bfloat16])
def test_rows_of_positions_in_half_precision(dtype: torch.dtype, exact: int, then: torch.dtype) -> None:
    table = sines(torch.arange(exact + 40).to(dtype)).to(then)
    assert repeated_rows(table) == (exact + 40, exact)
    assert repeated_rows(table.T[None].contiguous()) == (exact + 40, exact)
    assert repeated_rows(torch.arange(exact + 40).to(dtype)) == (exact + 40, exact)


@pytest.mark.parametrize(
    "table",
    [
        sines(torch.arange(300)),
        sines(torch.arange(300)).bfloat16(),
        sines(torch.arange(257).bfloat16()),
        torch.ones(300, 4),
        torch.ones(300, 300).tril(),
        torch.arange(300),
        torch.zeros(300, 0),
        torch.tensor(0.0),
    ],
)
def test_other_tables(table: torch.Tensor) -> None:
    assert repeated_rows(table) is None
