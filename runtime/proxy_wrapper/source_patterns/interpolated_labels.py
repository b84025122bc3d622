"""Finds label maps that are resized by interpolation, and cut to integers.

mask = F.interpolate(mask[None].float(), size, mode="bilinear")[0].long()

Between a pixel of class 0 and one of class 7, it has classes that are there in no image, and a mask of 0 and 1 shrinks.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.imported_modules import FUNCTIONAL
from proxy_wrapper.program_code.syntax import last_name
from proxy_wrapper.source_patterns.data_roles import words_of
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy_wrapper.program_code.syntax import Scope

INTERPOLATED: Final = "labels-interpolated"

_RESIZING: Final = frozenset({f"{FUNCTIONAL}.interpolate", f"{FUNCTIONAL}.upsample"})
_MIXING: Final = frozenset({"linear", "bilinear", "bicubic", "trilinear", "area"})
_TORCHVISION: Final = "torchvision.transforms.functional.resize"
_LABELS: Final = frozenset({"mask", "masks", "label", "labels", "lbl", "seg", "segmentation", "annotation", "gt"})
_LABELS_OF_LOSS: Final = frozenset({"target", "targets"})
_OTHERS: Final = frozenset(
    {"pred", "preds", "predicted", "prediction", "predictions", "logit", "logits", "prob", "probs", "score", "scores"}
    | {"soft", "heat", "heatmap", "depth", "height", "distance", "flow", "attention", "attn", "valid", "padding", "pad"}
    | {"alpha", "image", "images", "img", "coord", "coords", "out", "output", "outputs", "weight", "weights"}
)
"""Words of names of what is no map of classes, or is to be cut downwards."""
_KEEPING: Final = frozenset(
    {"squeeze", "unsqueeze", "view", "reshape", "permute", "contiguous", "cpu", "cuda", "clone", "detach", "flatten"}
)
_AS_FLOATS: Final = frozenset({"float", "double"})
_FLOATS: Final = frozenset({"float", "float32", "double", "float64"})
_AS_INTEGERS: Final = frozenset({"long", "int"})
_INTEGERS: Final = frozenset({"long", "int", "int64", "int32", "LongTensor", "IntTensor"})
_BYTES: Final = frozenset({"uint8", "byte", "ByteTensor"})
_CONVERTING: Final = frozenset({"to", "type"})
_FARTHEST: Final = 4
"""The most assignments that are followed."""


def interpolated_labels(scope: Scope) -> Iterator[Pattern]:
    """The calls that interpolate labels, which are then cut to integers. `other` is the line that does this."""
    if not scope.words.isdisjoint(_BYTES):
        return
    for cut in scope.calls:
        if not _converts(cut, _AS_INTEGERS, _INTEGERS) or not isinstance(cut.func, ast.Attribute):
            continue
        value, line = _unchanged(cut.func.value), cut.lineno
        for _ in range(_FARTHEST):
            assigned = _assigned_before(value, line, scope)
            if assigned is None:
                break
            value, line = _unchanged(assigned), assigned.lineno
        labels = _interpolated(value, scope)
        if labels and isinstance(value, ast.Call):
            yield Pattern(INTERPOLATED, value.lineno, (labels,), cut.lineno)


def _interpolated(value: ast.expr, scope: Scope) -> str:
    """The labels that a call interpolates; "" if it does not, or if it may round them."""
    if not isinstance(value, ast.Call) or not value.args:
        return ""
    function = scope.module_of(value.func)
    given = {each.arg: each.value for each in value.keywords}
    labels = _unchanged(value.args[0], _AS_FLOATS, _FLOATS)
    if function in _RESIZING:
        mode = given.get("mode", value.args[3] if len(value.args) > 3 else None)
        is_mixed = isinstance(mode, ast.Constant) and mode.value in _MIXING
    else:
        mode = given.get("interpolation", value.args[2] if len(value.args) > 2 else None)
        is_mixed = mode is None or last_name(mode).lower() in _MIXING
        is_mixed = is_mixed and function == _TORCHVISION and _has_floats(value.args[0])
    return ast.unparse(labels) if is_mixed and _are_labels(labels) else ""


def _converts(call: ast.Call, methods: frozenset[str], types: frozenset[str]) -> bool:
    """Whether a call converts a tensor to one of some types."""
    name = last_name(call.func)
    if name in methods:
        return not call.args
    given = [*call.args, *(each.value for each in call.keywords if each.arg == "dtype")]
    return name in _CONVERTING and any(last_name(each) in types for each in given)


def _unchanged(value: ast.expr, methods: frozenset[str] = frozenset(), types: frozenset[str] = frozenset()) -> ast.expr:
    """The expression with the values of another, which only changes their shape, device, or type to one of some."""
    while True:
        if isinstance(value, ast.Subscript) and not isinstance(value.slice, ast.Constant):
            value = value.value
        elif isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
            if isinstance(value.slice.value, str):
                return value
            value = value.value
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            name = value.func.attr
            is_moved = name == "to" and not any(last_name(each) in _FLOATS | _INTEGERS for each in value.args)
            if name not in _KEEPING and not is_moved and not _converts(value, methods, types):
                return value
            value = value.func.value
        else:
            return value


def _has_floats(value: ast.expr) -> bool:
    """Whether an expression converts what it is of to floating-point numbers, which a resize does not round."""
    calls = [each for each in ast.walk(value) if isinstance(each, ast.Call)]
    return any(_converts(each, _AS_FLOATS, _FLOATS) for each in calls)


def _are_labels(value: ast.expr) -> bool:
    """Whether a variable, or the item of a sample, is called a map of labels."""
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        name = str(value.slice.value)
    else:
        name = last_name(value)
    words = set(words_of(name))
    return bool(words & (_LABELS | _LABELS_OF_LOSS)) and not words & _OTHERS


def _assigned_before(variable: ast.expr, line: int, scope: Scope) -> ast.expr | None:
    """What the last assignment above a line gives a variable; None if it is changed in place in between."""
    name = ast.unparse(variable)
    found = [(target.lineno, value) for target, value in scope.assignments if ast.unparse(target) == name]
    before = [(at, value) for at, value in found if at < line]
    if not before:
        return None
    at, value = before[-1]
    changes = (node for node in scope.nodes if isinstance(node, (ast.Subscript, ast.AugAssign, ast.Call)))
    is_changed = any(at < node.lineno <= line and _changes(node, name) for node in changes)
    return None if is_changed or scope.is_stored_between(name, at, line) else value


def _changes(node: ast.Subscript | ast.AugAssign | ast.Call, name: str) -> bool:
    """Whether a node changes a variable in place."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == name
    if isinstance(node, ast.AugAssign):
        return ast.unparse(node.target) == name
    is_method = isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")
    return is_method and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == name
