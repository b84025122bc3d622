"""Transforms that are assigned to one part of a data set, and change all parts, are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.shared_transforms import shared_transforms
from tests.proxy_wrapper.source_patterns.found import found

BOTH = """
train_set, val_set = random_split(data, [90, 10])
train_set.dataset.transform = augment
val_set.dataset.transform = plain
"""
CREATED = """
data = Images(root, transform={})
train_set = Subset(data, order[:90])
{} = Subset(data, order[90:])
{}.dataset.transform = plain
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(BOTH, (4, ("val_set", "train_set")), id="assigned to both"),
        pytest.param(BOTH.replace("val_set", "b").replace("train_set", "a"), (4, ("b", "a")), id="without a role"),
        pytest.param(
            BOTH.replace("train_set", "self.train_set").replace("val_set", "self.val_set"),
            (4, ("self.val_set", "self.train_set")),
            id="attributes",
        ),
        pytest.param(CREATED.format("augment", "val_set", "val_set"), (5, ("val_set", "train_set")), id="held out"),
    ],
)
def test_a_transform_that_changes_another_part(text: str, expected: tuple[int, tuple[str, ...]]) -> None:
    assert found(text, shared_transforms) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(BOTH.replace("= plain", "= augment"), id="the same one"),
        pytest.param(BOTH.replace("random_split(data, [90, 10])", "Images(True), Images(False)"), id="two data sets"),
        pytest.param(
            BOTH.replace("train_set.dataset.tr", "val_set.dataset = copy(data)\ntrain_set.dataset.tr"), id="a copy"
        ),
        pytest.param(BOTH.replace("val_set.dataset.transform", "val_set.transform"), id="an attribute of the part"),
        pytest.param(
            "train_set, val_set = random_split(data, [90, 10])\nfor epoch in range(9):\n"
            "    train_set.dataset.transform = augment\n    train(train_set)\n"
            "    val_set.dataset.transform = plain\n    test(val_set)\n",
            id="back and forth",
        ),
        pytest.param(CREATED.format("None", "val_set", "val_set"), id="created without one"),
        pytest.param(CREATED.format("plain", "val_set", "val_set"), id="created with the same one"),
        pytest.param(CREATED.format("first", "val_set", "train_set"), id="for all, by the training data"),
        pytest.param(CREATED.format("augment", "calibration", "calibration"), id="no held-out data by its name"),
    ],
)
def test_other_assignments(text: str) -> None:
    assert found(text, shared_transforms) == []
