"""Images and masks that a data set augments apart are found by its source and its transforms."""

from __future__ import annotations

import ast
import textwrap
from types import SimpleNamespace
from typing import Any

import pytest

from proxy_wrapper.source_patterns.separate_augmentations import separate_augmentations


class RandomHorizontalFlip:
    """A transform that is known by its name."""


class Normalize:
    """A transform that moves nothing."""


class Compose:
    """Several transforms."""

    def __init__(self, *transforms: Any) -> None:
        self.transforms = list(transforms)


def found(code: str, transform: Any = None) -> list[tuple[int, tuple[str, ...]]]:
    """What is found in a `__getitem__` with that code, of a data set with such a transform."""
    (function,) = ast.parse("def __getitem__(self, i):\n" + textwrap.indent(textwrap.dedent(code), "    ")).body
    assert isinstance(function, ast.FunctionDef)
    patterns = separate_augmentations(function, SimpleNamespace(augment=transform))
    return [(each.line - 1, each.names) for each in patterns]


FLIP = """
image, mask = self.images[i], self.masks[i]
if {}:
    {}
return image, mask
"""

TWICE = """
image, mask = self.load(i)
image = self.augment(image)
{}
return image, mask
"""


APART = """
image, mask = self.images[i], self.masks[i]
{draw}
if {first}:
    image = image.flip(-1)
if {second}:
    mask = mask.flip(-1)
return image, mask
"""


def test_an_image_and_a_mask_that_are_flipped_by_two_draws() -> None:
    draw = "torch.rand(1) < 0.5"
    assert found(APART.format(draw="pass", first=draw, second=draw)) == [(5, ("image", "mask"))]


@pytest.mark.parametrize(
    ("draw", "first", "second"),
    [
        pytest.param("rand = random.random()", "rand < 0.5", "rand < 0.5", id="one draw"),
        pytest.param("random.seed(i)", "random.random() < 0.5", "random.random() < 0.5", id="a seed"),
        pytest.param("pass", "random.random() < 0.5", "self.flip", id="a condition that draws nothing"),
    ],
)
def test_flips_that_may_be_one(draw: str, first: str, second: str) -> None:
    assert found(APART.format(draw=draw, first=first, second=second)) == []


@pytest.mark.parametrize(
    "flip",
    ["image = image.flip(-1)", "image = np.fliplr(image).copy()", "image = TF.hflip(image); image = image * 2"],
)
def test_an_image_that_is_flipped_alone(flip: str) -> None:
    assert found(FLIP.format("random.random() < 0.5", flip)) == [(4, ("image", "mask"))]


def test_one_transform_of_several_arrays_that_draws_twice() -> None:
    code = "image, mask = self.load(i)\n(image,), (mask,) = self.augment(image), self.augment(mask)\nreturn image, mask"
    assert found(code, RandomHorizontalFlip()) == [(2, ("image", "mask"))]


@pytest.mark.parametrize("transform", [RandomHorizontalFlip(), Compose(Normalize(), RandomHorizontalFlip())])
def test_one_transform_that_draws_twice(transform: Any) -> None:
    assert found(TWICE.format("mask = self.augment(mask)"), transform) == [(3, ("image", "mask"))]


@pytest.mark.parametrize(
    ("code", "transform"),
    [
        pytest.param(FLIP.format("random() < 0.5", "image, mask = image.flip(-1), mask.flip(-1)"), None, id="both"),
        pytest.param(FLIP.format("random() < 0.5", "image = image.flip(-1); mask = mask.flip(-1)"), None, id="in turn"),
        pytest.param(FLIP.format("self.is_mirrored", "image = image.flip(-1)"), None, id="always"),
        pytest.param(FLIP.format("random() < 0.5", "image = image + noise()"), None, id="nothing moves"),
        pytest.param(
            FLIP.replace("mask", "label").format("random() < 0.5", "image = image.flip(-1)"), None, id="a class"
        ),
        pytest.param(
            FLIP.replace("mask", "padding_mask").format("random() < 0.5", "image = image.flip(-1)"), None, id="padding"
        ),
        pytest.param(
            """
            image = self.images[i]
            if random() < 0.5:
                image = image.flip(-1)
            mask = image > 0
            return image, mask
            """,
            None,
            id="a mask of what was flipped",
        ),
        pytest.param(
            """
            image = self.images[i]
            h, w = image.shape[-2:]
            mask = self.holes(h, w)
            if random() < 0.5:
                image = image.flip(-1)
            return image, mask
            """,
            None,
            id="a mask that is drawn",
        ),
        pytest.param(
            """
            image, mask = self.images[i], self.masks[i % len(self.masks)]
            if random() < 0.5:
                image = image.flip(-1)
            return image, mask
            """,
            None,
            id="a mask of no image",
        ),
        pytest.param(TWICE.format("mask = self.augment(mask)"), Normalize(), id="a transform that draws nothing"),
        pytest.param(TWICE.format("mask = self.to_tensor(mask)"), RandomHorizontalFlip(), id="another transform"),
        pytest.param(
            TWICE.format("torch.manual_seed(i); mask = self.augment(mask)"), RandomHorizontalFlip(), id="the same draws"
        ),
        pytest.param("return self.augment(self.images[i])", RandomHorizontalFlip(), id="no mask"),
    ],
)
def test_others_are_not(code: str, transform: Any) -> None:
    assert found(code, transform) == []
