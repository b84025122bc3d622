"""How a thread trains: with optimizers, or by hand."""

from __future__ import annotations


class Training:
    """How a thread trains what it uses: with optimizers, or by hand.

    Attributes:
        has_optimizer: whether an optimizer has stepped.
        is_by_hand: whether a step by hand was seen, and none of an optimizer since.
        is_step_due: whether a change would end a step by hand: a backward pass has come before it.
        backward_passes: how many there were while neither of the first two was known.
    """

    __slots__ = ("backward_passes", "has_optimizer", "is_by_hand", "is_step_due")

    def __init__(self) -> None:
        self.has_optimizer = self.is_by_hand = self.is_step_due = False
        self.backward_passes = 0

    def go_on_from(self, other: Training) -> None:
        """Go on with a model that another thread has trained so far: the step that is due there is due here."""
        self.has_optimizer |= other.has_optimizer
        self.is_step_due |= other.is_step_due
        other.is_step_due = False
