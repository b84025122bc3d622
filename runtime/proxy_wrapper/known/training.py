"""How a thread trains: with optimizers or by hand."""

from __future__ import annotations


class Training:
    """How a thread trains its models: with optimizers or by hand.

    Attributes:
        has_optimizer: whether an optimizer has stepped.
        is_by_hand: whether a manual step was seen, and no optimizer step since.
        is_step_due: whether the next change ends a manual step, because a backward pass preceded it.
        backward_passes: the number of backward passes while neither of the first two was known.
    """

    __slots__ = ("backward_passes", "has_optimizer", "is_by_hand", "is_step_due")

    def __init__(self) -> None:
        self.has_optimizer = self.is_by_hand = self.is_step_due = False
        self.backward_passes = 0

    def go_on_from(self, other: Training) -> None:
        """Take over a model that another thread has trained so far. A step that is due there becomes due here."""
        self.has_optimizer |= other.has_optimizer
        self.is_step_due |= other.is_step_due
        other.is_step_due = False
