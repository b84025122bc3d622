"""siu's FLOPs of operations other than matrix products: a multiple of the elements of their first argument."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    Rule = Callable[[tuple[Any, ...], dict[str, Any], Any], int]

_TENSOR: Final = torch._C.TensorBase

_COPIES: Final = frozenset(
    (
        *("cat", "clone", "contiguous", "constant_pad_nd", "copy", "copy_", "_copy_from", "_to_copy", "detach_"),
        *("fill", "fill_", "flip", "gather", "im2col", "col2im", "index", "index_copy", "index_copy_", "index_put"),
        *("index_put_", "index_select", "lift_fresh", "masked_scatter", "masked_select", "pixel_shuffle"),
        *("pixel_unshuffle", "reflection_pad1d", "reflection_pad2d", "repeat", "_reshape_alias", "roll", "scatter"),
        *("scatter_", "select_backward", "select_scatter", "slice_backward", "slice_scatter", "stack", "tril", "triu"),
        *("_unsafe_view", "_unsafe_index", "where", "zero_", "split_with_sizes", "expand_copy", "view_copy"),
        *("as_strided_", "resize_", "squeeze_", "unsqueeze_", "transpose_", "t_", "set_", "_local_scalar_dense"),
    )
)
"""Operations that only move values."""

_MAKERS: Final = (
    *("arange", "bernoulli", "empty", "exponential", "eye", "full", "linspace", "new_empty", "new_full", "new_ones"),
    *("new_zeros", "normal", "ones", "rand", "randint", "randn", "randperm", "random", "scalar_tensor", "uniform"),
    "zeros",
)
"""Prefixes of operations that create values, up to a trailing `_`."""

_BY_FIRST: Final = frozenset(
    (
        *("_adaptive_avg_pool1d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_max_pool1d"),
        *("adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d", "argmax", "argmin"),
        *("binary_cross_entropy", "binary_cross_entropy_backward", "cumprod", "cumsum", "elu_backward", "embedding"),
        *("embedding_dense_backward", "glu", "glu_backward", "glu_jvp", "hardshrink_backward", "hardsigmoid_backward"),
        *("hardswish_backward", "hardtanh_backward", "huber_loss", "huber_loss_backward", "leaky_relu_backward"),
        *("linalg_vector_norm", "log_sigmoid_backward", "log_sigmoid_forward", "_log_softmax"),
        *("_log_softmax_backward_data", "logsumexp", "max", "max_pool2d_with_indices", "max_pool3d_with_indices"),
        *("mean", "median", "min", "mish_backward", "mse_loss", "mse_loss_backward", "native_dropout"),
        *("native_dropout_backward", "nll_loss2d_backward", "nll_loss2d_forward", "nll_loss_backward"),
        *("nll_loss_forward", "norm", "prelu", "_prelu_kernel", "_prelu_kernel_backward", "prod"),
        *("rrelu_with_noise", "rrelu_with_noise_backward", "smooth_l1_loss", "smooth_l1_loss_backward", "_softmax"),
        *("_softmax_backward_data", "softplus_backward", "softshrink_backward", "std", "std_mean", "sum"),
        *("threshold_backward", "var", "var_mean", "any", "all", "amax", "amin", "aminmax"),
    )
)
"""Pooling, softmax, losses, reductions, and elementwise operations that torch does not tag as such."""

_BY_RESULT: Final = frozenset(
    (
        *("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward", "adaptive_max_pool2d_backward"),
        *("adaptive_max_pool3d_backward", "avg_pool2d_backward", "avg_pool3d_backward"),
        *("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward"),
    )
)

_ALWAYS_TRAINING: Final = frozenset(
    ("_batch_norm_with_update", "cudnn_batch_norm_backward", "miopen_batch_norm_backward")
)
_BATCH_NORM: Final = _ALWAYS_TRAINING | frozenset(
    (
        *("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"),
        *("_batch_norm_no_update", "cudnn_batch_norm", "miopen_batch_norm"),
        *("native_batch_norm_backward", "batch_norm_backward"),
    )
)
_LAYER_NORM: Final = frozenset(
    (
        *("native_layer_norm", "native_layer_norm_backward", "native_group_norm", "native_group_norm_backward"),
        *("_fused_rms_norm", "_fused_rms_norm_backward"),
    )
)


def computes_nothing(operation: Any) -> bool:
    """Whether `operation` returns a view, moves values, or creates values."""
    schema = getattr(operation, "_schema", None)
    if schema is None or operation.namespace != "aten":
        return False
    name = schema.name.partition("::")[2]
    is_maker = name.rstrip("_") in _MAKERS or name.removesuffix("_like") in _MAKERS
    return is_maker or name in _COPIES or operation.is_view


def siu_rule(operation: Any) -> Rule | None:
    """The function that counts a call of `operation`; None if there is no rule for it."""
    schema = getattr(operation, "_schema", None)
    if schema is None or operation.namespace != "aten":
        return None
    name = schema.name.partition("::")[2]
    if name in _BATCH_NORM:
        return _of_batch_norm(schema, is_training=True if name in _ALWAYS_TRAINING else None)
    if name in _LAYER_NORM:
        weight = _position(schema, "weight")
        return lambda args, _kwargs, _out: _elements(args) * (5 if _given(args, weight) is not None else 4)
    if name in _BY_RESULT:
        return lambda _args, _kwargs, out: _elements((out,))
    tags = operation.tags
    is_elementwise = torch.Tag.pointwise in tags or name.startswith("_foreach_")
    if is_elementwise or name.rstrip("_") in _BY_FIRST or getattr(torch.Tag, "reduction", None) in tags:
        return lambda args, _kwargs, out: _elements(args) if _is_floating(args) or _is_floating((out,)) else 0
    return None


def _of_batch_norm(schema: Any, *, is_training: bool | None) -> Rule:
    weight, training = _position(schema, "weight"), _position(schema, "training", "train", "update")

    def count(args: tuple[Any, ...], _kwargs: dict[str, Any], _out: Any) -> int:
        if is_training or _given(args, training):
            return 5 * _elements(args)
        return _elements(args) * (2 if _given(args, weight) is not None else 1)

    return count


def _position(schema: Any, *names: str) -> int | None:
    """The position of the argument with one of these names; None if there is none."""
    return next((number for number, each in enumerate(schema.arguments) if each.name in names), None)


def _given(args: tuple[Any, ...], position: int | None) -> Any:
    return args[position] if position is not None and position < len(args) else None


def _is_floating(values: tuple[Any, ...]) -> bool:
    """Whether the first tensor is floating-point: counting batches and comparing tokens are no FLOPs."""
    for each in values:
        tensor = each[0] if type(each) in (list, tuple) and each else each
        if isinstance(tensor, _TENSOR):
            return tensor.dtype.is_floating_point or tensor.dtype.is_complex
    return False


def _elements(args: tuple[Any, ...]) -> int:
    """The number of elements of the first tensor, or of all tensors in the first list of tensors."""
    for each in args:
        if isinstance(each, _TENSOR):
            return math.prod(each.shape)
        if type(each) in (list, tuple) and each and isinstance(each[0], _TENSOR):
            return sum(math.prod(tensor.shape) for tensor in each)
    return 0
