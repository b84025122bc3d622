"""Loops that overwrite the counts of a metric are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.overwritten_counts import overwritten_counts
from tests.proxy_wrapper.source_patterns.found import found


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param(
            """
            correct = total = 0
            for x, y in loader:
                correct = (model(x).argmax(1) == y).sum().item()
                total += len(y)
            print(correct / total)
            """,
            4,
            id="equal values",
        ),
        pytest.param(
            """
            def evaluate(model, loader):
                hits, n = 0, 0
                with torch.no_grad():
                    for batch in tqdm(loader):
                        out = model(batch.x)
                        same = out.argmax(1).eq(batch.y)
                        hits = int(torch.sum(same))
                return 100 * hits / len(loader.dataset)
            """,
            8,
            id="with variables between",
        ),
        pytest.param(
            """
            running = 0.0
            for step, (x, y) in enumerate(loader):
                loss = criterion(model(x), y)
                loss.backward()
                running = loss.item()
            print(running / len(loader))
            """,
            6,
            id="a loss that is divided by the number of batches",
        ),
        pytest.param(
            """
            running = 0
            for i, batch in enumerate(tqdm(loader)):
                running = float(criterion(model(batch), batch.y))
            print(running / (i + 1))
            """,
            4,
            id="a loss that is divided by a counter",
        ),
        pytest.param(
            """
            right = 0
            for start in range(0, len(x), 64):
                with autocast():
                    p = model(x[start:start + 64]).argmax(1)
                    right = (p == y[start:start + 64]).sum()
            accuracy = right.item() / len(x)
            """,
            6,
            id="batches by slices",
        ),
    ],
)
def test_an_overwritten_count_is_found(text: str, line: int) -> None:
    ((told, _),) = found(text, overwritten_counts)
    assert told == line


LOOP = """
correct = 0
for x, y in loader:
    correct {}
print(correct / 10)
"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(LOOP.format("+= (model(x).argmax(1) == y).sum()"), id="added"),
        pytest.param(LOOP.format("= correct + (model(x).argmax(1) == y).sum()"), id="added by name"),
        pytest.param(LOOP.format("= (model(x).argmax(1) == y).sum(); print(correct)"), id="printed for each batch"),
        pytest.param(LOOP.format("= (model(x).argmax(1) == y).sum(); break"), id="the first batch on purpose"),
        pytest.param(LOOP.format("= metric(x, y)"), id="a number of which nothing is known"),
        pytest.param(LOOP.format("= (model(inputs).argmax(1) == targets).sum()"), id="the same for each batch"),
        pytest.param(LOOP.replace("correct = 0", "correct = None").format("= (x == y).sum()"), id="not counted from 0"),
        pytest.param(LOOP.replace("correct / 10", "correct").format("= (x == y).sum()"), id="not divided"),
        pytest.param(
            LOOP.replace("x, y in loader", "epoch in range(9)").format("= (run(epoch) == y).sum()"), id="epochs"
        ),
        pytest.param(
            """
            loss = 0.0
            for x, y in loader:
                loss = criterion(model(x), y)
                loss.backward()
            print(loss / len(loader))
            """,
            id="a loss that the loop uses",
        ),
    ],
)
def test_other_loops_are_not(text: str) -> None:
    assert found(text, overwritten_counts) == []
