"""Finds statements that compute a tensor and do nothing with it: `scores.masked_fill(mask, -1e9)`.

What such a call gives is another tensor; the one that it is called of stays as it is. Nothing is run: what is called is
told by its name where only tensors have a method of that name, and else by the value that the name stands for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from torch import nn

from proxy_wrapper.places.assigned_lines import AssignedLine
from proxy_wrapper.places.outermost_calls import UNKNOWN, discarded_callees, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.places.called_functions import Body

_METHODS: Final = frozenset(
    {"masked_fill", "masked_scatter", "index_fill", "index_add", "index_copy", "scatter_add", "clamp", "clamp_min"}
    | {"clamp_max", "unsqueeze", "permute", "log_softmax", "triu", "tril", "nan_to_num", "reshape", "view"}
)
"""Methods of tensors that change nothing, and that nothing else has which would."""

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
    """A call whose result nothing uses: its line, and the name of what is called, as the code has it."""

    at: AssignedLine
    function: str


def discarded_calls(body: Body) -> Iterator[DiscardedCall]:
    """The calls of a function that compute a tensor which nothing uses."""
    for line, names, constants in discarded_callees(body.code):
        if {"inplace", "out"} & constants or True in constants:
            continue  # The place of `inplace` may have come without its name.
        if _gives_another(names, body):
            yield DiscardedCall(AssignedLine(body.code, line), "".join(names))


def _gives_another(names: tuple[str, ...], body: Body) -> bool:
    """Whether what some names lead to does nothing but to compute another tensor."""
    last = names[-1].lstrip(".")
    value: Any = value_of(names, body)
    if value is UNKNOWN:
        return len(names) > 1 and last in _METHODS
    if type(value) in _LAYERS:
        return not getattr(value, "inplace", False)
    home = getattr(value, "__module__", None) or getattr(type(value), "__module__", "")
    return last in _FUNCTIONS and home in _HOMES and getattr(value, "__name__", "") == last
