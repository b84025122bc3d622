"""Seeds that are set in each pass of a training loop are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.repeated_seeds import repeated_seeds
from tests.proxy_wrapper.source_patterns.found import found_in_file

TRAINING = """
def draw(x, step, generator=None):
    {}
    return x[{}]
for step in range(100):
    {}
    model(draw(x, step)).sum().backward()
"""
ROWS = "torch.randint(len(x), (8,))"


@pytest.mark.parametrize(
    ("seed", "rows", "inside", "line"),
    [
        ("torch.manual_seed(0)", ROWS, "pass", 3),
        ("np.random.seed(SEED)", "np.random.choice(len(x), 8)", "pass", 3),
        ("pass", "step", "random.seed(7); rows = random.sample(range(100), 8)", 6),
    ],
)
def test_a_seed_that_is_set_again(seed: str, rows: str, inside: str, line: int) -> None:
    ((found, _),) = found_in_file(TRAINING.format(seed, rows, inside), repeated_seeds)
    assert found == line


@pytest.mark.parametrize(
    ("seed", "rows", "inside"),
    [
        pytest.param("pass", ROWS, "pass", id="no seed"),
        pytest.param("torch.manual_seed(step)", ROWS, "pass", id="another seed in each step"),
        pytest.param("torch.manual_seed(0)", "step", "pass", id="no draw"),
        pytest.param("generator.manual_seed(SEED + step)", ROWS, "pass", id="a seed that is computed"),
    ],
)
def test_other_seeds(seed: str, rows: str, inside: str) -> None:
    assert found_in_file(TRAINING.format(seed, rows, inside), repeated_seeds) == []


def test_a_seed_outside_the_loop() -> None:
    text = TRAINING.format("torch.manual_seed(0)", ROWS, "pass").replace("model(draw(x, step))", "model(x)")
    assert found_in_file(text, repeated_seeds) == []
