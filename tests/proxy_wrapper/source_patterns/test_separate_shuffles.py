"""Inputs and labels that are shuffled apart are found by the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.separate_shuffles import separate_shuffles
from tests.proxy_wrapper.source_patterns.found import found

USE = "\ndataset = TensorDataset(x, y)"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x = x[torch.randperm(n)]\ny = y[torch.randperm(n)]" + USE, id="drawn twice"),
        pytest.param("np.random.shuffle(x)\nnp.random.shuffle(y)\nfor a, b in zip(x, y): pass", id="in place"),
        pytest.param("def f(x, y):\n    x = shuffle(x); y = shuffle(y)\n    return x, y", id="returned"),
        pytest.param("x = shuffle(x)\ny = shuffle(y)" + USE, id="by a function"),
        pytest.param(
            "rng.shuffle(train_images)\nrng.shuffle(train_labels)\nfit(train_images, train_labels)", id="names"
        ),
        pytest.param(
            "p = rng.permutation(9); xtrain = xtrain[p]\np = rng.permutation(9); ytrain = ytrain[p]\n"
            "a, b = xtrain[i:j], ytrain[i:j]",
            id="a variable that is drawn again",
        ),
    ],
)
def test_two_permutations_are_found(text: str) -> None:
    ((line, _),) = found(text, separate_shuffles)
    assert line == 2


def test_attributes_belong_together_in_any_method_of_their_class() -> None:
    text = """
    class Batches:
        def reshuffle(self):
            self.x = self.x[torch.randperm(len(self.x))]
            self.y = self.y[torch.randperm(len(self.y))]

        def __getitem__(self, i):
            return self.x[i], self.y[i]
    """
    assert found(text, separate_shuffles) == [(5, ("self.x", "self.y"))]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("p = torch.randperm(n)\nx = x[p]\ny = y[p]" + USE, id="one permutation"),
        pytest.param("x, y = shuffle(x, y)" + USE, id="both at once"),
        pytest.param(
            "np.random.seed(0)\nnp.random.shuffle(x)\nnp.random.seed(0)\nnp.random.shuffle(y)" + USE, id="one seed"
        ),
        pytest.param("x = shuffle(x, random_state=0)\ny = shuffle(y, random_state=0)" + USE, id="one random state"),
        pytest.param(
            "s = rng.get_state()\nrng.shuffle(x)\nrng.set_state(s)\nrng.shuffle(y)" + USE, id="one state of a generator"
        ),
        pytest.param("y = y[torch.randperm(n)]" + USE, id="labels alone, to see what chance gives"),
        pytest.param("x = x[torch.randperm(n)]\ny = y[torch.randperm(n)]", id="not used together"),
        pytest.param(
            "horses = horses[torch.randperm(n)]\nzebras = zebras[torch.randperm(n)]\nzip(horses, zebras)", id="a"
        ),
        pytest.param("x_m = x[torch.randperm(n)]\ny_m = y[torch.randperm(n)]\nf(x_m, y_m)", id="copies"),
        pytest.param("x_a = shuffle(x_a)\ny_b = shuffle(y_b)\nf(x_a, y_b)", id="of other sets"),
    ],
)
def test_other_shuffles_are_not(text: str) -> None:
    assert found(text, separate_shuffles) == []
