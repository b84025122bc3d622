"""Finds images and masks that are augmented apart, in the code of a data set that returns a sample.

    if random.random() < 0.5:
        image = image.flip(-1)              # the mask stays as it is
    return image, mask

Or the mask is flipped under a condition of its own, which draws another number. Or both go through one transform, which
draws anew for each: `self.augment(image)`, `self.augment(mask)`. The transform is looked up in the attributes of the
data set. None of its code is run.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, Final

from proxy_wrapper.program_code.known_expressions import KnownExpressions
from proxy_wrapper.program_code.syntax import Scope, last_name, names_in
from proxy_wrapper.source_patterns.pattern import Pattern
from proxy_wrapper.source_patterns.permuted_sizes import keeps_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

AUGMENTED_APART: Final = "augmented-apart"

_IMAGES: Final = re.compile(r"(x|im|img|image|picture|scan|slice)_?\d?")
_MASKS: Final = re.compile(r"(mask|seg|segmentation|seg_mask|label_map|seg_map|gt_mask)_?\d?")
_FLIPS: Final = frozenset({"flip", "fliplr", "flipud", "hflip", "vflip", "horizontal_flip", "vertical_flip", "rot90"})
_MOVING: Final = re.compile(r"Random(Horizontal|Vertical)?(Flip|Crop|ResizedCrop|Rotation|Affine|Perspective|Rot90)")
_SEEDS: Final = re.compile(r"seed|state|Generator|get_params", re.IGNORECASE)
_MOST: Final = 100
"""The most transforms of a composed one that are looked at."""


def separate_augmentations(function: ast.FunctionDef, dataset: Any) -> Iterator[Pattern]:
    """The line of a data set's `__getitem__` that moves an image apart from the mask with which it is returned.

    Args:
        function: the syntax of `__getitem__`.
        dataset: the data set.
    """
    scope = Scope(function)
    returned = {name for node in scope.nodes if isinstance(node, ast.Return) for name in _returned(node)}
    masks = sorted(name for name in returned if _MASKS.fullmatch(name))
    images = [name for name in returned if _IMAGES.fullmatch(name)]
    if len(masks) != 1 or not images or not _is_of_sample(masks[0], images, function, scope):
        return
    (mask,) = masks
    for target, value in _of_one(scope):
        if not isinstance(target, ast.Name) or target.id not in images or not isinstance(value, ast.Call):
            continue
        if _is_flipped_alone(target, value, mask, scope) or _is_drawn_twice(target.id, value, mask, scope, dataset):
            yield Pattern(AUGMENTED_APART, value.lineno, (target.id, mask))
            return


def _returned(node: ast.Return) -> Iterator[str]:
    """The variables that a function returns side by side."""
    for part in node.value.elts if isinstance(node.value, ast.Tuple) else ():
        if isinstance(part, ast.Name):
            yield part.id


def _is_of_sample(mask: str, images: Sequence[str], function: ast.FunctionDef, scope: Scope) -> bool:
    """Whether a mask is read for the sample, by its index. Masks that are drawn belong to no image."""
    arguments = [each.arg for each in function.args.args]
    if len(arguments) != len(("self", "index")):
        return False
    index = arguments[1]
    read = [(names, value) for target, value in scope.assignments if (names := _names_of(target))]
    of_index = {index}.union(*(names for names, value in read if index in names_in(value))) - {*images, mask}
    first = next((value for names, value in read if mask in names), None)
    if first is None or of_index.isdisjoint(names_in(first)):
        return False
    return not any(isinstance(node, ast.Mod) for node in ast.walk(first)) and "rand" not in ast.unparse(first)


def _of_one(scope: Scope) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The assignments of a function; `(image,) = ...` counts as one of `image`."""
    for target, value in scope.assignments:
        yield (target.elts[0] if isinstance(target, ast.Tuple) and len(target.elts) == 1 else target), value


def _names_of(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def _is_flipped_alone(target: ast.Name, value: ast.Call, mask: str, scope: Scope) -> bool:
    """Whether an image is flipped at random, and the mask, which the function had before, by no draw or another one."""
    draws = [
        node
        for node in scope.nodes
        if isinstance(node, ast.If)
        and node.lineno <= value.lineno <= (node.end_lineno or node.lineno)
        and "rand" in ast.unparse(node.test)
    ]
    while (inner := keeps_order(value)) is not None and isinstance(inner, ast.Call):
        value = inner
    if last_name(value.func) not in _FLIPS or target.id not in names_in(value) or not draws:
        return False
    stores = scope.stores(mask)
    if not stores or min(stores) >= draws[0].lineno or mask in names_in(value):
        return False
    return all(line < draws[0].lineno or _is_drawn_anew(line, draws, scope) for line in stores)


def _is_drawn_anew(line: int, draws: Sequence[ast.If], scope: Scope) -> bool:
    """Whether a line is under a condition that draws a number, and under none of some others."""
    if any(_SEEDS.search(ast.unparse(call.func)) for call in scope.calls):
        return False
    around = [
        node for node in scope.nodes if isinstance(node, ast.If) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    is_drawn = any(
        isinstance(part, ast.Call) and "rand" in ast.unparse(part.func)
        for node in around
        for part in ast.walk(node.test)
    )
    return is_drawn and not any(node in draws for node in around)


def _is_drawn_twice(image: str, value: ast.Call, mask: str, scope: Scope, dataset: Any) -> bool:
    """Whether one random transform is called for the image and for the mask, and nothing repeats its draws."""
    if any(_SEEDS.search(ast.unparse(call.func)) for call in scope.calls):
        return False
    transform = ast.unparse(value.func)
    is_of_image = [ast.unparse(each) for each in value.args] == [image]
    of_mask = [
        other
        for target, other in _of_one(scope)
        if ast.unparse(target) == mask and isinstance(other, ast.Call) and ast.unparse(other.func) == transform
    ]
    is_of_mask = any([ast.unparse(each) for each in other.args] == [mask] for other in of_mask)
    if not is_of_image or not is_of_mask:
        return False
    return _moves_at_random(KnownExpressions(scope, {"self": dataset}).value_of(value.func))


def _moves_at_random(transform: Any) -> bool:
    """Whether a transform, or one that it is composed of, moves the elements of an image at random, by its class."""
    held: Any = getattr(transform, "__dict__", {}).get("transforms")
    parts = [transform, *held[:_MOST]] if type(held) in (list, tuple) else [transform]
    return any(_MOVING.fullmatch(type(each).__name__) for each in parts)
