"""How a loss was computed, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy_wrapper.events import LossNode


def loss_text(nodes: Sequence[LossNode]) -> str:
    """The calls outside of the model, the last one first, and the call inside whose result they used."""
    words = []
    for node in nodes:
        words.append(call_of(node))
        if node.inside:
            words[-1] += " of the model"
            break
    return " of ".join(words) if words else "unknown"


def call_of(node: LossNode) -> str:
    """The call that a node stands for: "MseLoss" for "MseLossBackward0"."""
    return node.name.rpartition(".")[2].rstrip("0123456789").removesuffix("Backward")
