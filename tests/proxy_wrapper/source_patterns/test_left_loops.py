"""Loops that return what they add up in their first pass are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.left_loops import left_loops
from tests.proxy_wrapper.source_patterns.found import found


@pytest.mark.parametrize(
    ("text", "line", "names"),
    [
        pytest.param(
            """
            def train(model, loader):
                total = 0.0
                for x, y in loader:
                    loss = step(model, x, y)
                    total += loss.item()
                    return total / len(loader)
            """,
            7,
            ("total",),
            id="a sum",
        ),
        pytest.param(
            """
            def train(loader):
                losses = Meter()
                for x, y in loader:
                    losses.update(step(x, y))
                    return losses.avg
            """,
            6,
            ("losses",),
            id="a meter",
        ),
        pytest.param(
            """
            def predict(model, loader):
                out, seen = [], 0
                for x in loader:
                    with torch.no_grad():
                        out.append(model(x))
                        seen += len(x)
                        return torch.cat(out), seen
            """,
            8,
            ("out", "seen"),
            id="a list and a number, within a block",
        ),
    ],
)
def test_a_loop_that_returns_what_it_adds_up(text: str, line: int, names: tuple[str, ...]) -> None:
    assert found(text, left_loops) == [(line, names)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            """
            def train(loader):
                total = 0.0
                for x in loader:
                    total += step(x)
                return total
            """,
            id="after the loop",
        ),
        pytest.param(
            """
            def first(loader):
                for x, y in loader:
                    return x.shape
            """,
            id="the first of something",
        ),
        pytest.param(
            """
            def find(items):
                tried = []
                for item in items:
                    tried.append(item)
                    if not item:
                        continue
                    return item, tried
            """,
            id="a search",
        ),
        pytest.param(
            """
            def find(items):
                tried = 0
                for item in items:
                    tried += 1
                    if item:
                        return tried
            """,
            id="under a condition",
        ),
        pytest.param(
            """
            def attempt():
                errors = []
                for _ in range(3):
                    try:
                        return run()
                    except OSError as error:
                        errors.append(error)
                return errors
            """,
            id="another attempt",
        ),
        pytest.param(
            """
            def first_rows(loader):
                for x in loader:
                    rows = []
                    rows.append(x[0])
                    return rows
            """,
            id="a list of one pass",
        ),
        pytest.param(
            """
            def wait():
                count = 0
                while True:
                    count += 1
                    return count
            """,
            id="no loop over anything",
        ),
        pytest.param(
            """
            def one(loader):
                total = 0
                for x in loader:
                    total += len(x)
                    return x
            """,
            id="something else is returned",
        ),
        pytest.param(
            """
            def attempt(sources):
                log = []
                for source in sources:
                    try:
                        log.append(read(source))
                    except OSError:
                        log.append(None)
                    return log
            """,
            id="what may fail",
        ),
    ],
)
def test_other_loops(text: str) -> None:
    assert found(text, left_loops) == []
