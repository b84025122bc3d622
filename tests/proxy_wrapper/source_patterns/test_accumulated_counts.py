"""Metrics that are added up over all epochs are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.accumulated_counts import accumulated_counts
from tests.proxy_wrapper.source_patterns.found import found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(
            """
            correct = 0
            for epoch in range(9):
                with torch.no_grad():
                    for x, y in loader:
                        correct += (model(x).argmax(1) == y).sum().item()
                print(f"{epoch}: {100 * correct / len(loader.dataset):.1f}")
            """,
            6,
            id="divided by the number of samples",
        ),
        pytest.param(
            """
            right = 0
            for epoch in range(9):
                for x, y in loader:
                    right += (model(x).argmax(1) == y).sum().item()
                print(right / len(loader.dataset))
            """,
            5,
            id="called otherwise, but it counts predictions that are right",
        ),
        pytest.param(
            """
            def fit(model, loader, count):
                running_loss, epoch = 0.0, 0
                while epoch < 9:
                    for x, y in loader:
                        loss = criterion(model(x), y)
                        running_loss += loss.item()
                    history.append(running_loss / count)
                    epoch += 1
            """,
            7,
            id="a loss",
        ),
        pytest.param(
            """
            hits = 0
            for epoch in range(9):
                total = 0
                for x, y in loader:
                    hits += (model(x).argmax(1) == y).sum()
                    total += len(y)
                print(hits / total)
            """,
            6,
            id="divided by what is set back",
        ),
    ],
)
def test_a_metric_of_all_epochs_is_found(text: str, line: int) -> None:
    ((told, _),) = found(text, accumulated_counts)
    assert told == line


LOOPS = """
correct = total = 0
for epoch in range(9):
    for step, (x, y) in enumerate(loader):
        correct += (model(x).argmax(1) == y).sum()
        total += len(y)
        {}
    {}
"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LOOPS.format("pass", "print(correct / total)"), id="a mean of all epochs"),
        pytest.param(LOOPS.format("pass", "print(correct / len(data) / (epoch + 1))"), id="divided by the epochs"),
        pytest.param(LOOPS.format("pass", "print(correct / (epoch * len(data)))"), id="divided by all samples so far"),
        pytest.param(LOOPS.format("pass", "print(correct / 9); correct = 0"), id="set back afterwards"),
        pytest.param(LOOPS.format("correct = 0 if step % 9 == 0 else correct", "print(correct / 9)"), id="set back"),
        pytest.param(LOOPS.format("print(correct / (step + 1))", "pass"), id="divided by the steps"),
        pytest.param(LOOPS.format("pass", "print(correct)"), id="not divided"),
        pytest.param(LOOPS.format("pass", "best = max(best, correct / len(data)); correct -= correct"), id="emptied"),
        pytest.param(LOOPS.format("pass", "pass") + "print(correct / 9)", id="divided at the end"),
        pytest.param(
            """
            seen = 0
            for epoch in range(9):
                for x, y in loader:
                    seen += len(y)
                print("epochs", seen / len(data))
            """,
            id="how many epochs there were",
        ),
        pytest.param(
            """
            for fold in folds:
                correct = 0
                for epoch in range(9):
                    for x, y in loader:
                        correct += (model(x) == y).sum()
                print(correct / len(fold) / 9)
            """,
            id="divided outside of the loop over epochs",
        ),
        pytest.param(
            """
            total_loss = 0
            for part in range(4):
                for x, y in batches_of(part):
                    total_loss += criterion(model(x), y).item()
                print(total_loss / count)
            """,
            id="other data in each pass",
        ),
    ],
)
def test_other_sums_are_not(text: str) -> None:
    assert found(text, accumulated_counts) == []
