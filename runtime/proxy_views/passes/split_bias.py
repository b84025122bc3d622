"""Splits layers with a bias into a multiplication and an addition."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.fx.passes.shape_prop import TensorMetadata

from proxy_views.call_under import CallUnder
from proxy_views.targets import Method

if TYPE_CHECKING:
    from collections.abc import Callable

_BIAS: Final = "bias"


class _Biased(NamedTuple):
    """The position of a function's bias argument, and the number of dimensions of its result after the channels."""

    position: int
    behind: int


_FUNCTIONS: Final[dict[Callable[..., Any], _Biased]] = {
    F.linear: _Biased(2, 0),
    F.bilinear: _Biased(3, 0),
    F.conv1d: _Biased(2, 1),
    F.conv2d: _Biased(2, 2),
    F.conv3d: _Biased(2, 3),
    F.conv_transpose1d: _Biased(2, 1),
    F.conv_transpose2d: _Biased(2, 2),
    F.conv_transpose3d: _Biased(2, 3),
}
_CONVOLUTIONS: Final[dict[type[nn.Module], Callable[..., Any]]] = {
    nn.Conv1d: F.conv1d,
    nn.Conv2d: F.conv2d,
    nn.Conv3d: F.conv3d,
}
_TRANSPOSED: Final[dict[type[nn.Module], Callable[..., Any]]] = {
    nn.ConvTranspose1d: F.conv_transpose1d,
    nn.ConvTranspose2d: F.conv_transpose2d,
    nn.ConvTranspose3d: F.conv_transpose3d,
}
_SUMS: Final = ("addmm", "addbmm", "baddbmm")
_SUM_FUNCTIONS: Final[dict[Callable[..., Any], str]] = {getattr(torch, name): name for name in _SUMS}
_FACTORS: Final = frozenset({"beta", "alpha"})


def split_bias(gm: fx.GraphModule) -> fx.GraphModule:
    """Split the addition of the bias from each layer. Changes and returns `gm`.

    `linear(x, w, b)` becomes `linear(x, w) + b`. A convolution becomes `conv(x, w, None, ...) + b.reshape(-1, 1, ...)`.
    `addmm(b, m, n, beta=, alpha=)` becomes `linear(m, n.transpose(-2, -1)) * alpha + b * beta`, without factors of 1.
    Modules that are one node are split likewise, if they have no hooks and their class is torch's own. The result is
    the same up to rounding, because the layers add within one computation.
    """
    for node in list(gm.graph.nodes):
        if node.op == "call_module":
            _split_module(gm, node)
        elif node.op in ("call_function", "call_method"):
            function = _called_by(node)
            if function in _FUNCTIONS:
                _split_call(gm.graph, node, _FUNCTIONS[function])
            name = function if isinstance(function, str) else _SUM_FUNCTIONS.get(function)
            if name in _SUMS:
                _split_sum(gm.graph, node, name)
    gm.graph.lint()
    gm.recompile()
    return gm


def _called_by(node: fx.Node) -> Any:
    """The function that a node calls, or the name of the method, ignoring any switches around the call."""
    if not isinstance(node.target, CallUnder):
        return node.target
    function = node.target.function
    return function.name if isinstance(function, Method) else function


def _under(node: fx.Node, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, called with the same switches as the call of `node`: autocast, and whether gradients are on."""
    target = node.target
    return CallUnder(function, target.state, target.outer) if isinstance(target, CallUnder) else function


def _split_call(graph: fx.Graph, node: fx.Node, biased: _Biased) -> None:
    args = list(node.args)
    if len(args) > biased.position:
        bias, args[biased.position] = args[biased.position], None
    else:
        bias = node.kwargs.get(_BIAS)
    if not isinstance(bias, fx.Node):
        return
    kwargs = {key: value for key, value in node.kwargs.items() if key != _BIAS}
    with graph.inserting_before(node):
        product = _like(node, graph.create_node(node.op, node.target, tuple(args), kwargs))
        added = _in_dtype_of(graph, bias, node)
        if biased.behind:
            added = _reshaped(graph, node, added, biased.behind)
        total = _like(node, graph.call_function(_under(node, operator.add), (product, added)))
    _replace(graph, node, total)


def _split_sum(graph: fx.Graph, node: fx.Node, name: str) -> None:
    """Split a call of `torch.addmm` or the like; a call with `out`, or in an older form, stays."""
    given = dict(zip(("input", *_parts_of(name)), node.args, strict=False))
    given |= node.kwargs
    if len(node.args) > 3 or set(given) - _FACTORS != {"input", *_parts_of(name)}:
        return
    first, second = (given[part] for part in _parts_of(name))
    alpha, beta = given.get("alpha", 1), given.get("beta", 1)
    with graph.inserting_before(node):
        product = _multiplied(graph, node, name, first, second)
        if not _is_number(alpha, 1):
            product = _like(node, graph.call_function(_under(node, operator.mul), (product, alpha)))
        if not _is_number(beta, 0):  # With beta 0, `addmm` ignores the addend, even a NaN.
            added = _in_dtype_of(graph, given["input"], node)
            if not _is_number(beta, 1):
                added = graph.call_function(_under(node, operator.mul), (added, beta))
                _place_like(node, added)
                _describe_like(given["input"], added)
            product = _like(node, graph.call_function(_under(node, operator.add), (product, added)))
    _replace(graph, node, product)


def _parts_of(name: str) -> tuple[str, str]:
    return ("mat1", "mat2") if name == "addmm" else ("batch1", "batch2")


def _multiplied(graph: fx.Graph, node: fx.Node, name: str, first: Any, second: Any) -> fx.Node:
    if name == "addmm":
        transposed = _place_like(node, graph.call_method("transpose", (second, -2, -1)))
        meta = second.meta.get("tensor_meta") if isinstance(second, fx.Node) else None
        if isinstance(meta, TensorMetadata):
            shape, stride = torch.Size(reversed(meta.shape)), tuple(reversed(meta.stride))
            transposed.meta["tensor_meta"] = meta._replace(shape=shape, stride=stride)
        return _like(node, graph.call_function(_under(node, F.linear), (first, transposed)))
    products = graph.call_function(_under(node, torch.bmm), (first, second))
    if name == "baddbmm":
        return _like(node, products)
    _place_like(node, products)
    return _like(node, graph.call_function(_under(node, torch.sum), (products, 0)))


def _split_module(gm: fx.GraphModule, node: fx.Node) -> None:
    """Replace a layer of torch that has a bias by a call of its function, and split that."""
    module = gm.get_submodule(str(node.target))
    if _has_hooks(module) or getattr(module, _BIAS, None) is None:
        return
    given = dict(zip(("input",), node.args, strict=False)) | node.kwargs
    if set(given) != {"input"} or len(node.args) > 1:
        return
    found = _as_function(module)
    if found is None:
        return
    function, rest = found
    with gm.graph.inserting_before(node):
        weight, bias = (_read(gm, node, f"{node.target}.{name}") for name in ("weight", _BIAS))
        call = _like(node, gm.graph.call_function(function, (given["input"], weight, bias, *rest)))
    _replace(gm.graph, node, call)
    _split_call(gm.graph, call, _FUNCTIONS[function])


def _as_function(module: Any) -> tuple[Callable[..., Any], tuple[Any, ...]] | None:
    """The function of a layer, and its arguments after the bias; None for other modules."""
    kind = type(module)
    if kind is nn.Linear:
        return F.linear, ()
    if kind in _CONVOLUTIONS and module.padding_mode == "zeros":
        return _CONVOLUTIONS[kind], (module.stride, module.padding, module.dilation, module.groups)
    if kind in _TRANSPOSED:
        arguments = (module.stride, module.padding, module.output_padding, module.groups, module.dilation)
        return _TRANSPOSED[kind], arguments
    return None


def _has_hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks)


def _read(gm: fx.GraphModule, node: fx.Node, name: str) -> fx.Node:
    """A new node that reads a parameter of a module."""
    made = _place_like(node, gm.graph.get_attr(name))
    holder, _, key = name.rpartition(".")
    tensor = getattr(gm.get_submodule(holder), key)
    shape, stride = tensor.shape, tensor.stride()
    made.meta["tensor_meta"] = TensorMetadata(
        shape, tensor.dtype, tensor.requires_grad, stride, None, is_quantized=False, qparams={}
    )
    return made


def _in_dtype_of(graph: fx.Graph, bias: Any, node: fx.Node) -> Any:
    """The bias in the dtype of the result: under autocast, layers convert it."""
    made = node.meta.get("tensor_meta")
    given = bias.meta.get("tensor_meta") if isinstance(bias, fx.Node) else None
    if not isinstance(made, TensorMetadata) or not isinstance(given, TensorMetadata) or made.dtype == given.dtype:
        return bias
    converted = _place_like(node, graph.call_method("to", (bias, made.dtype)))
    converted.meta["tensor_meta"] = given._replace(dtype=made.dtype)
    return converted


def _reshaped(graph: fx.Graph, node: fx.Node, bias: fx.Node, behind: int) -> fx.Node:
    """The bias, reshaped to lie along the channels of a result with `behind` dimensions after them."""
    made = _place_like(node, graph.call_method("reshape", (bias, -1, *[1] * behind)))
    meta = bias.meta.get("tensor_meta")
    if isinstance(meta, TensorMetadata):
        shape = torch.Size([*meta.shape, *[1] * behind])
        made.meta["tensor_meta"] = meta._replace(shape=shape, stride=(*meta.stride, *[1] * behind))
    return made


def _is_number(value: Any, number: int) -> bool:
    return isinstance(value, (int, float)) and value == number


def _like(node: fx.Node, made: fx.Node) -> fx.Node:
    """`made`, with all metadata of `node` except its cost; both have results of one shape."""
    made.meta.update({key: value for key, value in node.meta.items() if key != "profile"})
    return made


def _place_like(node: fx.Node, made: fx.Node) -> fx.Node:
    """`made`, with all metadata of `node` except those of its result and cost."""
    left_out = ("tensor_meta", "val", "profile")
    made.meta.update({key: value for key, value in node.meta.items() if key not in left_out})
    return made


def _describe_like(node: Any, made: fx.Node) -> None:
    if isinstance(node, fx.Node) and "tensor_meta" in node.meta:
        made.meta["tensor_meta"] = node.meta["tensor_meta"]


def _replace(graph: fx.Graph, node: fx.Node, by: fx.Node) -> None:
    node.replace_all_uses_with(by)
    graph.erase_node(node)
