"""Applies the callbacks of a bend to a tensor, and checks their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.utils.checkpoint import _StopRecomputationError

from proxy_views.bending.errors import BendingError, CallbackError, ResultError

if TYPE_CHECKING:
    from proxy_views.bending.bends import Bend
    from proxy_views.bending.callback import Place


def apply(bend: Bend, value: torch.Tensor, place: Place, *, must_keep_shape: bool) -> torch.Tensor:
    """The result of applying the callbacks of `bend` to `value`.

    Args:
        bend: the bend. Its count goes up, unless a checkpoint is recomputing.
        value: the tensor to change.
        place: where it is.
        must_keep_shape: whether a different shape is an error for every callback.

    Raises:
        BendingError: if a callback raises, or returns something unsuitable.
    """
    name = place.name
    for callback in bend.row:
        shape, dtype = value.shape, value.dtype
        try:
            result = callback.bend(value, place)
        except (BendingError, _StopRecomputationError):
            raise
        except Exception as error:
            raise CallbackError(repr(callback), name, error) from error
        if not isinstance(result, torch.Tensor):
            raise ResultError(repr(callback), name, f"returned a {type(result).__name__}, not a tensor.")
        if result.dtype != dtype:
            words = f"{dtype} and returned {result.dtype}".replace("torch.", "")
            raise ResultError(repr(callback), name, f"received a tensor of {words}; it must keep the dtype.")
        if result.shape != shape and (must_keep_shape or callback.keeps_shape):
            raise ResultError(
                repr(callback), name,
                f"received the shape {tuple(shape)} and returned {tuple(result.shape)}; it must keep the shape"
                + ("." if must_keep_shape else ", unless `keeps_shape` is False."),
            )  # fmt: skip
        value = result
    if not place.is_recomputed:
        bend.count += 1
    return value
