"""Finds images for validation or tests that are prepared otherwise than for training.

    test_transform = Compose([RandomCrop(32, padding=4), ToTensor()])       # augmented at random
    test_set = CIFAR10(root, train=False, transform=train_transform)        # which has a `RandomCrop`
    test_transform = Compose([ToTensor()])                                  # and `train_transform` has a `Normalize`

The names of variables, or the keys of a dictionary, tell which transforms and data are held out. A file that mentions
contrastive learning or augmentation at test time is not judged: it augments held-out data on purpose.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy_wrapper.program_code.syntax import is_variable, last_name
from proxy_wrapper.source_patterns.data_roles import role_of
from proxy_wrapper.source_patterns.pattern import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy_wrapper.program_code.syntax import Scope

AUGMENTED: Final = "evaluation-augmented"
NOT_NORMALISED: Final = "evaluation-not-normalised"

_COMPOSES: Final = "Compose"
_RANDOM: Final = re.compile(
    r"Random(?!Sampler)[A-Z]\w*|ColorJitter|RandAugment|AutoAugment|TrivialAugment(Wide)?|AugMix|ShiftScaleRotate"
)
_SCALES: Final = "Normalize"
_KNOWN: Final = re.compile(
    r"Resize|CenterCrop|ToTensor|PILToTensor|ToImage|ToPILImage|ToTensorV2|ConvertImageDtype|ToDtype|Grayscale|Pad"
)
"""Transforms of images that are neither random nor normalise."""
_SPLITS: Final = "random_split"
_ON_PURPOSE: Final = re.compile(
    r"(^|_)(tta|ssl|self_?sup\w*)(_|$)|contrastive|sup_?con|info_?nce|xent|simclr|simsiam|moco|byol|dino|(two|n|multi)_?(crop|view)|test_?time"
    r"|upscale|super_?res|denois|(^|_)(sr|lr_img|hr|lq|gt)(_|$)",
    re.IGNORECASE,
)
_ATTACKS: Final = re.compile(r"attack|adversar|fgsm|(^|_)pgd", re.IGNORECASE)
"""Words of programs that change pixels before they normalise them in the model."""
_TRANSFORM: Final = "transform"
_USUAL: Final = frozenset(
    {
        "transform",
        "transforms",
        "transformation",
        "transformations",
        "tf",
        "tfm",
        "tfms",
        "trans",
        "aug",
        "augs",
        "data",
    }
    | {"augment", "augmentation", "augmentations", "compose", "composed", "image", "images", "img", "preprocess", "set"}
)
"""Words of names that tell no purpose of a transform; `test_rotated_transform` is for a test of its own."""


class _Transform(NamedTuple):
    """A transform that is composed of others, and what it is called."""

    name: str
    parts: Sequence[ast.expr]


def evaluation_transforms(scopes: Sequence[Scope]) -> Iterator[Pattern]:
    """The lines of a file that augment held-out data at random, or that do not normalise them."""
    transforms = [found for scope in scopes for found in _transforms(scope)]
    words = {word for scope in scopes for word in (*scope.words, scope.name)} if transforms else set()
    if not transforms or any(map(_ON_PURPOSE.search, words)):
        return
    scales = sum(last_name(call.func) == _SCALES for scope in scopes for call in scope.calls)
    within = sum(_name_of_call(part) == _SCALES for each in transforms for part in each.parts)
    named = sum(_name_of_call(value) == _SCALES for scope in scopes for _, value in scope.assignments)
    is_scaled_elsewhere = scales > within + named or any(map(_ATTACKS.search, words))
    for each in transforms:
        if not _is_held_out(each.name):
            continue
        drawn = next((part for part in each.parts if _is_random(part)), None)
        if drawn is not None and _USUAL.issuperset(role_of(each.name).rest):
            yield Pattern(AUGMENTED, drawn.lineno, (each.name, _name_of_call(drawn)))
        yield from () if is_scaled_elsewhere else _not_normalised(each, transforms, scopes)
    for scope in scopes:
        yield from _augmented_data(scope, transforms)


def _transforms(scope: Scope) -> Iterator[_Transform]:
    """The composed transforms that are assigned to variables, or are values of dictionaries."""
    named = [(_last_part(target), value) for target, value in scope.assignments if is_variable(target)]
    for node in scope.nodes:
        if isinstance(node, ast.Dict):
            keys = zip(node.keys, node.values, strict=True)
            named += [(str(key.value), value) for key, value in keys if isinstance(key, ast.Constant)]
    for name, value in named:
        if isinstance(value, ast.Call) and last_name(value.func) == _COMPOSES and value.args:
            parts = scope.resolved(value.args[0])
            if isinstance(parts, (ast.List, ast.Tuple)):
                yield _Transform(name, parts.elts)


def _not_normalised(
    transform: _Transform, transforms: Sequence[_Transform], scopes: Sequence[Scope]
) -> Iterator[Pattern]:
    """A transform of held-out data that does not normalise as the only one of training does."""
    of_training = [each for each in transforms if role_of(each.name).is_training and not _is_held_out(each.name)]
    if len(of_training) != 1 or not transform.parts:
        return
    own, others = ([scopes[0].resolved(part, scopes) for part in each.parts] for each in (transform, of_training[0]))
    scaled = [part for part in others if _name_of_call(part) == _SCALES]
    if len(scaled) != 1:
        return
    given = [part for part in own if _name_of_call(part) == _SCALES]
    is_known = all(_KNOWN.fullmatch(_name_of_call(part)) or _is_random(part) for part in own if part not in given)
    differs = len(given) == 1 and _are_other_numbers(given[0], scaled[0])
    if differs or (not given and is_known):
        at = given[0] if given else transform.parts[-1]
        yield Pattern(NOT_NORMALISED, at.lineno, (transform.name, of_training[0].name), scaled[0].lineno)


def _augmented_data(scope: Scope, transforms: Sequence[_Transform]) -> Iterator[Pattern]:
    """Data sets called held-out data that are read with a random transform of training."""
    nodes = scope.nodes
    if any(isinstance(node, ast.Attribute) and node.attr == _TRANSFORM and _is_stored(node) for node in nodes):
        return  # A part of the data may have got another transform.
    at_random = {
        each.name: next(part for part in each.parts if _is_random(part))
        for each in transforms
        if any(map(_is_random, each.parts)) and sum(other.name == each.name for other in transforms) == 1
    }
    for target, value in scope.assignments:
        if not isinstance(value, ast.Call):
            continue
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        names = [_last_part(each) for each in targets if is_variable(each) and _is_held_out(_last_part(each))]
        call: ast.expr | None = value
        if last_name(value.func) == _SPLITS and value.args:
            call = scope.resolved(value.args[0])
        elif len(targets) != 1:
            continue
        for word in call.keywords if isinstance(call, ast.Call) and names else ():
            name = _last_part(word.value) if word.arg == _TRANSFORM else ""
            if name in at_random and not _is_held_out(name):
                yield Pattern(AUGMENTED, word.value.lineno, (names[0], _name_of_call(at_random[name])))


def _is_held_out(name: str) -> bool:
    role = role_of(name)
    return role.is_held_out and not role.is_training


def _is_random(part: ast.expr) -> bool:
    """Whether a part of a transform draws random numbers; `RandomRotation(0)` and `p=0` do not."""
    if not isinstance(part, ast.Call) or not _RANDOM.fullmatch(_name_of_call(part)):
        return False
    numbers = [*part.args[:1], *(word.value for word in part.keywords if word.arg == "p")]
    return not any(isinstance(each, ast.Constant) and each.value == 0 for each in numbers)


def _name_of_call(part: ast.expr) -> str:
    return last_name(part.func) if isinstance(part, ast.Call) else ""


def _last_part(target: ast.expr) -> str:
    return last_name(target) if is_variable(target) else ""


def _is_stored(node: ast.Attribute) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _are_other_numbers(one: ast.expr, other: ast.expr) -> bool:
    """Whether two calls have other numbers as arguments, both written out."""
    numbers = [_numbers(each) for each in (one, other)]
    return None not in numbers and numbers[0] != numbers[1]


def _numbers(call: ast.expr) -> list[object] | None:
    """The first two arguments of a call, the mean and the deviation, as they are written out; None if they are not."""
    if not isinstance(call, ast.Call):
        return None
    by_name = {word.arg: word.value for word in call.keywords}
    given = [*call.args, *(by_name[name] for name in ("mean", "std") if name in by_name)][:2]
    try:
        found = [ast.literal_eval(each) for each in given]
    except ValueError:
        return None
    return [[*each] if isinstance(each, (list, tuple)) else [each] for each in found] if len(found) == 2 else None
