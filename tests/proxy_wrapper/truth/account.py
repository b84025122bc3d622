"""What happened in a run of a program: the same account is made from the truth and from the trace."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Generic, TypeVar

V = TypeVar("V")
"""What is kept of a tensor's values: the values themselves, or the statistics that a trace has of them."""


@dataclass(frozen=True)
class GradientSeen(Generic[V]):
    """The gradient of a parameter when step number `step` began; `values` is None if it had none.

    `cleared` if there was none, or only zeros, though the last backward pass that reached it had left another.
    """

    step: int
    values: V | None
    cleared: bool = False


@dataclass
class Account(Generic[V]):
    """Counts and values by name.

    Attributes:
        calls: how often each module was called.
        raised: how many of its calls an exception ended.
        optimizer_steps: how many steps each class of optimizers made, those within another step left out.
        steps: all steps, those by hand with them.
        backward_passes: how many backward passes there were.
        gradients: for each parameter that an optimizer has, its gradient in each step, in order.
        nonfinite_loss: the step of the first backward pass that began with what is not finite; None if there is none.
        left_gradients: for each parameter that no optimizer takes, what each backward pass left that reached it.
        step_updates: for each parameter, the numbers of the optimizer steps that changed its values.
        final: for each parameter and buffer, its values at the end.
    """

    calls: Counter[str] = field(default_factory=Counter)
    raised: Counter[str] = field(default_factory=Counter)
    optimizer_steps: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    backward_passes: int = 0
    nonfinite_loss: int | None = None
    gradients: dict[str, list[GradientSeen[V]]] = field(default_factory=lambda: defaultdict(list))
    left_gradients: dict[str, list[V]] = field(default_factory=lambda: defaultdict(list))
    step_updates: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    final: dict[str, V] = field(default_factory=dict)
