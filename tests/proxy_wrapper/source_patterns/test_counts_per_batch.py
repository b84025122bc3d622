"""Numbers of samples that are divided by the number of batches are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.counts_per_batch import counts_per_batch
from tests.proxy_wrapper.source_patterns.found import found

LOOP = """
correct = 0
for x, y in tqdm(loader):
    out = model(x)
    {}
print({})
"""
COUNT = "correct += (out.argmax(1) == y).sum().item()"


@pytest.mark.parametrize(
    ("added", "printed"),
    [
        (COUNT, "correct / len(loader)"),
        (COUNT, "100.0 * correct / len(loader)"),
        (COUNT, "correct / float(len(loader))"),
        (COUNT, "correct / len(loader) * 100"),
        ("correct += torch.sum(out.argmax(1) == y)", "correct.item() / len(loader)"),
        ("correct += out.argmax(1).eq(y).sum()", "float(correct) / len(loader)"),
    ],
)
def test_a_count_that_is_divided_by_the_number_of_batches(added: str, printed: str) -> None:
    assert found(LOOP.format(added, printed), counts_per_batch) == [(6, ("correct",))]


@pytest.mark.parametrize(
    ("added", "printed"),
    [
        pytest.param(COUNT, "correct / len(loader.dataset)", id="by the number of samples"),
        pytest.param(COUNT, "correct / total", id="by a counter"),
        pytest.param("correct += (out.argmax(1) == y).float().mean()", "correct / len(loader)", id="an average"),
        pytest.param("correct += (out.argmax(1) == y).sum() / len(y)", "correct / len(loader)", id="a part"),
        pytest.param("correct += loss.item()", "correct / len(loader)", id="a loss"),
        pytest.param(COUNT, "correct / len(other)", id="by the length of something else"),
        pytest.param(COUNT, "correct", id="not divided"),
        pytest.param(COUNT, "correct / len(loader) / batch_size", id="divided once more"),
        pytest.param(COUNT, "correct / (len(loader) * batch_size)", id="by a product"),
    ],
)
def test_other_metrics(added: str, printed: str) -> None:
    assert found(LOOP.format(added, printed), counts_per_batch) == []


def test_what_is_made_an_average_after_the_loop() -> None:
    text = LOOP.format(COUNT, "correct / len(loader)").replace("print", "correct = correct / 32\nprint")
    assert found(text, counts_per_batch) == []


@pytest.mark.parametrize(
    ("before", "after", "is_told"),
    [
        pytest.param("", "correct /= len(loader)", True, id="in place"),
        pytest.param("batches = len(loader)", "correct /= batches", True, id="by a variable"),
        pytest.param("batches = len(loader)", "accuracy = correct / batches", True, id="a new variable"),
        pytest.param("size = len(loader.dataset)", "correct /= size", False, id="by the number of samples"),
        pytest.param("size = len(loader)\nsize *= 32", "correct /= size", False, id="by a variable that changes"),
    ],
)
def test_divisions_in_place_and_by_variables(before: str, after: str, is_told: bool) -> None:
    text = f"{before}\n{LOOP.format(COUNT, '0')}{after}\n"
    assert [names for _, names in found(text, counts_per_batch)] == [("correct",)] * is_told
