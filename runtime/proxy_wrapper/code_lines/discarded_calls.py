"""Finds statements that compute a tensor and discard it, such as `scores.masked_fill(mask, -1e9)`.

Such a call returns a new tensor and leaves its operand unchanged. Nothing is run. The callee is identified by its
name if only tensors have such a method, else by the value of the name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from torch import nn

from proxy_wrapper.program_code.assigned_lines import AssignedLine
from proxy_wrapper.program_code.outermost_calls import UNKNOWN, discarded_callees, looped_lines, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.program_code.called_functions import Body

_METHODS: Final = frozenset(
    {"masked_fill", "masked_scatter", "index_fill", "index_add", "index_copy", "scatter_add", "clamp", "clamp_min"}
    | {"clamp_max", "unsqueeze", "permute", "log_softmax", "triu", "tril", "nan_to_num", "reshape", "view"}
)
"""Tensor methods that change nothing, with names that no mutating method of another class has."""

_FUNCTIONS: Final = frozenset(
    {"relu", "leaky_relu", "elu", "gelu", "silu", "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout"}
    | {"softmax", "log_softmax", "sigmoid", "tanh", "normalize", "layer_norm", "clamp", "masked_fill", "where"}
    | {"nan_to_num", "triu", "tril", "reshape", "flatten", "unsqueeze", "interpolate", "pad"}
)
_HOMES: Final = ("torch.nn.functional", "torch._C._nn", "torch")
_LAYERS: Final = (
    nn.Linear,
    nn.LayerNorm,
    nn.Dropout,
    nn.Dropout1d,
    nn.Dropout2d,
    nn.Dropout3d,
    nn.ReLU,
    nn.LeakyReLU,
    nn.ELU,
    nn.GELU,
    nn.SiLU,
    nn.Sigmoid,
    nn.Tanh,
    nn.Softmax,
    nn.LogSoftmax,
)


class DiscardedCall(NamedTuple):
    """A call whose result is unused: its line, and the name of the callee as written."""

    at: AssignedLine
    function: str


def discarded_calls(body: Body) -> Iterator[DiscardedCall]:
    """The calls of a function that compute a tensor and discard it.

    A statement of a script that runs once, outside of any loop, is left out. It trains nothing. In a notebook, from
    which scripts are often exported, it displays the tensor.
    """
    looped = looped_lines(body.code) if body.code.co_name == "<module>" else None
    for line, names, constants in discarded_callees(body.code):
        if looped is not None and line not in looped:
            continue
        if {"inplace", "out"} & constants or True in constants:
            continue  # `inplace` may be passed by position.
        if _gives_another(names, body):
            yield DiscardedCall(AssignedLine(body.code, line), "".join(names))


def _gives_another(names: tuple[str, ...], body: Body) -> bool:
    """Whether the callee with these names does nothing but compute a new tensor."""
    last = names[-1].lstrip(".")
    value: Any = value_of(names, body)
    if value is UNKNOWN:
        return len(names) > 1 and last in _METHODS
    if type(value) in _LAYERS:
        return not getattr(value, "inplace", False)
    home = getattr(value, "__module__", None) or getattr(type(value), "__module__", "")
    return last in _FUNCTIONS and home in _HOMES and getattr(value, "__name__", "") == last
