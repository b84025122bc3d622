"""What is tried: a module and something done with it, once for each entry of PyTorch's own test databases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

DTYPES: Final = (torch.float32, torch.float64, torch.bfloat16, torch.complex64, torch.int64, torch.bool)
"""One of each kind of arithmetic; where an operator has none of them, its own first one is taken."""


class Trial(NamedTuple):
    """One module, and what is done with it once it may have been proxied."""

    label: str
    model: nn.Module
    run: Callable[[], Any]
    """Gives everything that is to be compared, as a pytree."""


@dataclass(frozen=True)
class Case:
    """All samples of one entry of a database for one variant: a dtype, a mode, a configuration."""

    kind: str
    """"operator", "module" or "optimizer"."""
    name: str
    variant: str
    make_trials: Callable[[], list[Trial]] = field(compare=False, repr=False)
    """Makes everything anew, the same each time under the same seed."""
    skip: str = ""
    """Why PyTorch itself does not test this; "" if it does."""
    fills_memory: bool = False
    """Whether outputs are uninitialised memory, which torch fills only where algorithms are to be deterministic."""

    @property
    def id(self) -> str:
        """As tests are called."""
        return f"{self.kind}-{self.name}-{self.variant}"


def dtype_name(dtype: torch.dtype) -> str:
    """The dtype without "torch."."""
    return str(dtype).removeprefix("torch.")
