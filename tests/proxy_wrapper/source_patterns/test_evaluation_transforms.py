"""Held-out images that are augmented, or not normalised as in training, are found by the names in the source."""

from __future__ import annotations

import ast
import textwrap

import pytest

from proxy_wrapper.program_code.syntax import scopes_of
from proxy_wrapper.source_patterns.evaluation_transforms import evaluation_transforms


def found(text: str) -> list[tuple[str, int, tuple[str, ...]]]:
    patterns = evaluation_transforms(list(scopes_of(ast.parse(textwrap.dedent(text)))))
    return [(pattern.what.removeprefix("evaluation-"), pattern.line, pattern.names) for pattern in patterns]


BOTH = """
train_transform = T.Compose([T.RandomCrop(32, padding=4), T.ToTensor(), T.Normalize((0.5,), (0.25,))])
test_transform = T.Compose([{}])
"""
DATA = """
augmented = Compose([RandomHorizontalFlip(), ToTensor()])
plain = Compose([ToTensor()])
{}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            BOTH.format("T.RandomCrop(32, padding=4), T.ToTensor(), T.Normalize((0.5,), (0.25,))"),
            ("augmented", 3, ("test_transform", "RandomCrop")),
            id="a transform for tests with a random part",
        ),
        pytest.param(
            """
            steps = [RandomCrop(32, padding=4), ToTensor()]
            test_transform = Compose(steps)
            """,
            ("augmented", 2, ("test_transform", "RandomCrop")),
            id="parts in a list of their own",
        ),
        pytest.param(
            """
            transforms = {
                "train": Compose([RandomResizedCrop(224), ToTensor()]),
                "val": Compose([RandomResizedCrop(224), ToTensor()]),
            }
            """,
            ("augmented", 4, ("val", "RandomResizedCrop")),
            id="under a key",
        ),
        pytest.param(
            """
            class Data:
                def __init__(self):
                    self.valTransform = Compose([Resize(32), ColorJitter(0.4), ToTensor()])
            """,
            ("augmented", 4, ("valTransform", "ColorJitter")),
            id="in an attribute",
        ),
        pytest.param(
            DATA.format("test_set = CIFAR10(root, train=False, transform=augmented)"),
            ("augmented", 4, ("test_set", "RandomHorizontalFlip")),
            id="a test set with the transform of training",
        ),
        pytest.param(
            DATA.format("data = Folder(root, transform=augmented)\ntrain_set, val_set = random_split(data, [8, 2])"),
            ("augmented", 4, ("val_set", "RandomHorizontalFlip")),
            id="a part of an augmented data set",
        ),
        pytest.param(
            BOTH.format("T.ToTensor()"),
            ("not-normalised", 3, ("test_transform", "train_transform")),
            id="not normalised",
        ),
        pytest.param(
            "crop = T.CenterCrop(32)" + BOTH.format("crop, T.ToTensor()"),
            ("not-normalised", 3, ("test_transform", "train_transform")),
            id="not normalised, with a variable",
        ),
        pytest.param(
            BOTH.format("T.ToTensor(), T.Normalize(mean=[0.1], std=[0.25])"),
            ("not-normalised", 3, ("test_transform", "train_transform")),
            id="normalised by other numbers",
        ),
    ],
)
def test_held_out_data_that_are_prepared_otherwise(text: str, expected: tuple[str, int, tuple[str, ...]]) -> None:
    assert found(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(BOTH.format("T.ToTensor(), T.Normalize((0.5,), (0.25,))"), id="prepared alike"),
        pytest.param(BOTH.format("T.ToTensor(), T.Normalize(mean=[0.5], std=[0.25])"), id="written otherwise"),
        pytest.param(BOTH.format("T.ToTensor(), T.Normalize(mean, std)"), id="by variables"),
        pytest.param("norm = T.Normalize(0.5, 0.25)" + BOTH.format("T.ToTensor(), norm"), id="by one variable"),
        pytest.param(BOTH.format("T.ToTensor(), Whiten()"), id="by a class of its own"),
        pytest.param(BOTH.format("*base, T.ToTensor()"), id="with unknown parts"),
        pytest.param(
            BOTH.format("T.ToTensor()") + "loss = attack(model)\n", id="attacked, and normalised in the model"
        ),
        pytest.param(
            BOTH.format("T.ToTensor()") + "model = nn.Sequential(T.Normalize(mean, std), net)\n",
            id="normalised by the model",
        ),
        pytest.param("test_rotated_transform = Compose([RandomRotation(30)])\n", id="a test of its own"),
        pytest.param("val_transform = Compose([RandomCrop(96)])\nx = upscale(y)\n", id="patches of large images"),
        pytest.param("test_transform = Compose([ToTensor()])\n", id="nothing is normalised"),
        pytest.param("test_transform = Compose([RandomRotation(0), RandomHorizontalFlip(p=0)])\n", id="never random"),
        pytest.param("train_transform = Compose([RandomCrop(32)])\n", id="of training"),
        pytest.param("transform = Compose([RandomCrop(32)])\n", id="of no known data"),
        pytest.param("train_test_transform = Compose([RandomCrop(32)])\n", id="of both"),
        pytest.param("val_tf = Compose([RandomCrop(32)])\nloss = ContrastiveLoss()\n", id="pairs of views"),
        pytest.param("test_tf = Compose([RandomCrop(32)])\ndef predict_tta(): pass\n", id="augmented on purpose"),
        pytest.param("val_sampler = RandomSampler(val_set)\n", id="samples in random order"),
        pytest.param(DATA.format("test_set = CIFAR10(root, transform=plain)"), id="a data set with its own transform"),
        pytest.param(
            DATA.format(
                "data = Folder(root, transform=augmented)\n"
                "train_set, val_set = random_split(data, [8, 2])\n"
                "val_set.dataset.transform = plain"
            ),
            id="a part of a data set that gets another transform",
        ),
        pytest.param(DATA.format("loaders = make(transform=augmented)"), id="no data set"),
    ],
)
def test_held_out_data_that_are_prepared_alike(text: str) -> None:
    assert found(text) == []
