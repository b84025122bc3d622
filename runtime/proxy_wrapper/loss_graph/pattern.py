"""What a finder of patterns gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import torch

    from proxy_wrapper.program_code.assigned_lines import AssignedLine


class Pattern(NamedTuple):
    """A pattern in the graph of a loss, with the fields of `GraphPattern`."""

    what: str
    shape: tuple[int, ...]
    dim: int = 0
    values: tuple[float, ...] = ()
    weights: tuple[torch.Tensor, ...] = ()
    """Leaves of the graph. The pattern counts only if all of them are known parameters."""
    viewed_to: int = 0
    """The number of dimensions of the result of the view that makes the pattern; 0 if no view does."""
    line: AssignedLine | None = None
    """The line that makes the pattern, if the graph tells. The pattern counts only if it is a line of the program."""
