"""Averages of batches that are divided by the number of samples are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.losses_per_sample import losses_per_sample
from tests.proxy_wrapper.source_patterns.found import found_in_file

FILE = """
train_loader = DataLoader(train_set, batch_size=32)
criterion = {made}

def test(model, loader):
    total, seen = 0.0, 0
    for x, y in tqdm(loader):
        loss = {loss}
        total += {added}
        seen += {seen}
    {after}
"""
USUAL = {
    "made": "nn.CrossEntropyLoss(label_smoothing=0.1)",
    "loss": "criterion(model(x), y)",
    "added": "loss.item()",
    "seen": "len(y)",
    "after": "return total / len(loader.dataset)",
}


def found(**changes: str) -> list[tuple[int, tuple[str, ...]]]:
    return found_in_file(FILE.format(**{**USUAL, **changes}), losses_per_sample)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="a module"),
        pytest.param({"loss": "F.cross_entropy(model(x), y)"}, id="a function"),
        pytest.param({"loss": "self.criterion(model(x), y)", "added": "float(loss)"}, id="an attribute"),
        pytest.param({"added": "loss.detach().cpu().item()"}, id="detached"),
        pytest.param({"added": "F.mse_loss(model(x), y).item()"}, id="without a variable"),
        pytest.param({"loss": "criterion(model(x), y) + F.mse_loss(model(y), x)"}, id="two losses"),
        pytest.param({"after": "total /= len(loader.dataset)"}, id="divided in place"),
        pytest.param({"after": "print(total / seen)"}, id="by a counter"),
        pytest.param({"after": "print(total / seen)", "seen": "y.size(0)"}, id="by a counter of sizes"),
        pytest.param({"after": "print(total / seen)", "seen": "y.shape[0]"}, id="by a counter of shapes"),
    ],
)
def test_averages_that_are_divided_by_the_number_of_samples(changes: dict[str, str]) -> None:
    assert found(**changes) == [(11, ("total",))]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"made": "nn.CrossEntropyLoss(reduction='sum')"}, id="a module that adds up"),
        pytest.param({"made": "nn.CrossEntropyLoss(**options)"}, id="unknown options"),
        pytest.param({"made": "nn.CrossEntropyLoss(None, False)"}, id="options without names"),
        pytest.param({"made": "make_criterion()"}, id="another criterion"),
        pytest.param({"made": "nn.MSELoss() if mean else Loss()"}, id="one of two"),
        pytest.param({"loss": "F.nll_loss(model(x), y, reduction='sum')"}, id="a function that adds up"),
        pytest.param({"loss": "F.nll_loss(model(x), y, size_average=False)"}, id="by its old name"),
        pytest.param({"loss": "cross_entropy(model(x), y)"}, id="a function of the program"),
        pytest.param({"added": "loss.item() * x.size(0)"}, id="times the size"),
        pytest.param({"loss": "criterion(model(x), y) * len(x)"}, id="times the size at once"),
        pytest.param({"added": "loss.item()\n        loss *= 2"}, id="a loss that changes"),
        pytest.param({"after": "return total / len(loader)"}, id="by the number of batches"),
        pytest.param({"after": "return total / seen", "seen": "1"}, id="by a counter of batches"),
        pytest.param({"after": "return total / len(loader.dataset) * batch_size"}, id="times the size afterwards"),
        pytest.param({"after": "return total / len(other.dataset)"}, id="by the samples of something else"),
        pytest.param({"after": "return total"}, id="not divided"),
    ],
)
def test_other_sums(changes: dict[str, str]) -> None:
    assert found(**changes) == []


def test_the_data_set_that_a_loader_was_made_of() -> None:
    text = """
    loader = DataLoader(train_set, batch_size=32)
    total = 0
    for x, y in loader:
        total += F.mse_loss(model(x), y).item()
    print(total / len(train_set))
    """
    assert found_in_file(text, losses_per_sample) == [(6, ("total",))]
    assert found_in_file(text.replace("len(train_set)", "len(test_set)"), losses_per_sample) == []
