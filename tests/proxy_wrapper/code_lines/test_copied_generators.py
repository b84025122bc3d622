"""Random generators that worker processes copy with their data set are found."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from proxy_wrapper.code_lines.copied_generators import copied_generator


class Keeps:
    """Draws from a generator that it keeps, in a method of its own."""

    def __init__(self) -> None:
        self.rng = random.Random(0)
        self.samples = torch.arange(9)

    def augment(self, sample: Any) -> Any:
        return sample + self.rng.gauss(0, 1)

    def __getitem__(self, index: int) -> Any:
        return self.augment(self.samples[index])


class OnlyKeeps(Keeps):
    """Draws no sample from the generator that it keeps."""

    def __getitem__(self, index: int) -> Any:
        return self.samples[index] + torch.randn(())


class SeedsEach(Keeps):
    """Seeds the generator that it keeps by the sample."""

    def __getitem__(self, index: int) -> Any:
        self.rng.seed(index)
        return self.augment(self.samples[index])


class Replaces(Keeps):
    """Replaces the generator that it keeps in each process."""

    def __getitem__(self, index: int) -> Any:
        if torch.utils.data.get_worker_info() is not None:
            self.rng = random.Random(torch.initial_seed())
        return self.augment(self.samples[index])


class OfTorch(Keeps):
    """Keeps a generator of torch."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = torch.Generator()  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [Keeps, OfTorch])
def test_a_generator_that_samples_are_drawn_from(kind: type[Keeps]) -> None:
    found = copied_generator(kind(), lambda _: True)
    assert found is not None
    assert (found.name, found.line.line) == ("rng", Keeps.augment.__code__.co_firstlineno + 1)


@pytest.mark.parametrize("kind", [OnlyKeeps, SeedsEach, Replaces])
def test_a_generator_that_is_not_drawn_from_or_is_seeded(kind: type[Keeps]) -> None:
    assert copied_generator(kind(), lambda _: True) is None


def test_a_data_set_without_a_generator() -> None:
    assert copied_generator([1, 2], lambda _: True) is None
