"""Finds the lines that call PyTorch's loss functions, among the lines that compute a loss."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from torch import nn

from proxy_wrapper.program_code.assigned_lines import AssignedLine, lines_behind, named_instructions
from proxy_wrapper.program_code.outermost_calls import value_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType

    from proxy_wrapper.program_code.computed_lines import ComputedLine

_FUNCTIONS_OF: Final[dict[type[nn.Module], str]] = {
    nn.BCELoss: "binary_cross_entropy",
    nn.BCEWithLogitsLoss: "binary_cross_entropy_with_logits",
    nn.CrossEntropyLoss: "cross_entropy",
    nn.HuberLoss: "huber_loss",
    nn.KLDivLoss: "kl_div",
    nn.L1Loss: "l1_loss",
    nn.MSELoss: "mse_loss",
    nn.NLLLoss: "nll_loss",
    nn.SmoothL1Loss: "smooth_l1_loss",
}
_FUNCTIONS: Final = frozenset(_FUNCTIONS_OF.values())


def loss_calls(computed: ComputedLine) -> list[AssignedLine]:
    """The lines that call a loss function or module, each with the function's name in `torch.nn.functional`.

    Args:
        computed: the line that computes the loss. Lines of the same function that assign the variables it uses count,
            too.
    """
    lines = lines_behind(computed.at)
    found: dict[AssignedLine, None] = {}
    for path, line in _paths(computed.at.code):
        if line in lines:
            name = _function_of(value_of(path, computed.body))
            if name:
                found[AssignedLine(computed.at.code, line, name)] = None
    return list(found)


def _paths(code: CodeType) -> Iterator[tuple[tuple[str, ...], int]]:
    """The names that a function reads, with the attributes read from each, `("self", ".criterion")`, and the lines."""
    path: list[str] = []
    line = 0
    for each in named_instructions(code):
        if each.name.startswith(".") and path and not each.is_store:
            path.append(each.name)
            continue
        if path:
            yield tuple(path), line
        path, line = ([] if each.is_store or each.name.startswith(".") else [each.name]), each.line
    if path:
        yield tuple(path), line


def _function_of(value: Any) -> str:
    if type(value) is FunctionType and value.__module__ == "torch.nn.functional" and value.__name__ in _FUNCTIONS:
        return value.__name__
    return _FUNCTIONS_OF.get(type(value), "")
