"""Held-out data that are standardised by their own statistics are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.own_statistics import own_statistics
from tests.proxy_wrapper.source_patterns.found import found_in_file

TRAIN = "x_train = (x_train - x_train.mean(0)) / x_train.std(0)\n"
HELPER = """
def standardize(x):
    {}
x_train = standardize(x_train)
x_val = standardize({})
"""
SCALED = "return (x - x.mean(0)) / (x.std(0) + 1e-8)"
FITTED = "scaler = StandardScaler()\ntrain_x = scaler.fit_transform(train_x)\n"


DATASET = """
class Readings(Dataset):
    def __init__(self, x, y, mean=None):
        {}
        self.y = y
train = DataLoader(Readings(x_train, y_train), 8)
val = DataLoader(Readings(x_val, y_val), 8)
"""


@pytest.mark.parametrize(
    ("text", "line", "data"),
    [
        (TRAIN + "x_val = (x_val - x_val.mean(0)) / x_val.std(0)", 2, "x_val"),
        (TRAIN + "x_test = ((x_test - x_test.mean()) / (x_test.std() + eps)).float()", 2, "x_test"),
        (
            TRAIN + "mean, std = x_val.mean(0), x_val.std(dim=0)\nx_val = (x_val - mean) / std.clamp(min=1e-6)",
            3,
            "x_val",
        ),
        (TRAIN + "x_val = (x[80:] - x[80:].mean(0)) / x[80:].std(0)", 2, "x_val"),
        (TRAIN + "x_val = x_val - x_val.mean((0, 1), keepdim=True)\nx_val = x_val / x_val.std((0, 1))", 2, "x_val"),
        (TRAIN + "x_val -= np.mean(x_val, axis=0)\nx_val /= np.std(x_val, axis=0)", 2, "x_val"),
        (TRAIN.replace("_train", "") + "x_test = (x_test - x_test.mean(0)) / x_test.std(0)", 2, "x_test"),
        (HELPER.format(SCALED, "x_val"), 5, "x_val"),
        (HELPER.format("return (x - x.mean()) / x.std()", "torch.tensor(x_val)"), 5, "x_val"),
        (HELPER.format("m, s = x.mean(0), x.std(0)\n    x = (x - m) / s\n    return x", "x[80:]"), 7, "x_val"),
        (HELPER.format("x = (x - x.mean(0)) / x.std(0)\n    return DataLoader(x, 8)", "x_val"), 6, "x_val"),
        (DATASET.format("self.x = (x - x.mean(0)) / x.std(0)"), 7, "x_val"),
        (DATASET.format("self.mean = x.mean(0)\n        self.x = (x - self.mean) / x.std(0)"), 8, "x_val"),
        (FITTED + "test_x = scaler.fit_transform(test_x)", 3, "test_x"),
        (FITTED + "test = TensorDataset(torch.tensor(StandardScaler().fit_transform(test_x)), y)", 3, "test_x"),
    ],
)
def test_own_statistics_are_found(text: str, line: int, data: str) -> None:
    ((at, names),) = found_in_file(text, own_statistics)
    assert at == line
    assert names[0] == data


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "m, s = x_train.mean(0), x_train.std(0)\nx_train = (x_train - m) / s\nx_val = (x_val - m) / s",
            id="of training",
        ),
        pytest.param("x_val = (x_val - x_val.mean(0)) / x_val.std(0)", id="only one of both"),
        pytest.param(TRAIN + "y_val = (y_val - y_val.mean(0)) / y_val.std(0)", id="other data"),
        pytest.param(
            "x_train = (x_train - x_train.mean(-1, keepdim=True)) / x_train.std(-1, keepdim=True)\n"
            "x_val = (x_val - x_val.mean(-1, keepdim=True)) / x_val.std(-1, keepdim=True)",
            id="each sample",
        ),
        pytest.param("x_train = (x_train - 0.5) / 0.5\nx_val = (x_val - 0.5) / 0.5", id="constants"),
        pytest.param(TRAIN + "total = ((x_val - x_val.mean(0)) ** 2).sum()", id="a variance"),
        pytest.param(TRAIN + "r = ((x_val - x_val.mean(0)) / x_val.std(0) * z).mean()", id="a correlation"),
        pytest.param(TRAIN + "for x_val in loader:\n    x_val = (x_val - x_val.mean(0)) / x_val.std(0)", id="a batch"),
        pytest.param(
            "def standardize(x, mean, std):\n    return (x - mean) / std\n"
            "x_train = standardize(x_train, m, s)\nx_val = standardize(x_val, m, s)",
            id="a helper with statistics",
        ),
        pytest.param(HELPER.format("return (x - x.mean(1, keepdim=True)) / x.std(1)", "x_val"), id="a helper of rows"),
        pytest.param(
            "train_image = (train_image - train_image.mean()) / train_image.std()\n"
            "test_image = (test_image - test_image.mean()) / test_image.std()",
            id="single images",
        ),
        pytest.param(DATASET.format("self.x = (x - mean) / x.std(0)"), id="a data set with statistics"),
        pytest.param(
            DATASET.format(
                "if mean is not None:\n            self.m = mean\n        else:\n            self.m = x.mean(0)\n"
                "        self.x = (x - self.m) / x.std(0)"
            ),
            id="statistics if given",
        ),
        pytest.param(
            DATASET.format("if mean is None:\n            x = (x - x.mean(0)) / x.std(0)"), id="only if none are given"
        ),
        pytest.param(HELPER.format("z = (x - x.mean(0)) / x.std(0)\n    return (z**3).mean()", "x_val"), id="skewness"),
        pytest.param(
            "def barlow(a, b):\n    a = (a - a.mean(0)) / a.std(0)\n    b = (b - b.mean(0)) / b.std(0)\n"
            "    return a.T @ b\ntrain = barlow(x_train, z_train)\nval = barlow(x_val, z_val)",
            id="a comparison",
        ),
        pytest.param(HELPER.format(SCALED, "y").replace("(x_train)", "(z)"), id="no data by name"),
        pytest.param(FITTED + "test_x = scaler.transform(test_x)", id="transformed"),
        pytest.param(FITTED + "test_y = StandardScaler().fit_transform(test_y)", id="labels"),
        pytest.param(
            "train_y = encoder.fit_transform(train_y)\ntest_y = encoder.fit_transform(test_y)", id="no scaler"
        ),
    ],
)
def test_other_preparations(text: str) -> None:
    assert found_in_file(text, own_statistics) == []
