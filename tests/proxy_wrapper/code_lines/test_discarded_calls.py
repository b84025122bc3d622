"""Statements that compute a tensor which nothing uses are found in code, and nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from proxy_wrapper.code_lines.discarded_calls import discarded_calls
from proxy_wrapper.program_code.called_functions import Body

if TYPE_CHECKING:
    from collections.abc import Callable


def masked(scores: Any, mask: Any) -> Any:
    scores.masked_fill(mask == 0, -1e9)
    return scores


def masked_below(self: Any, mask: Any) -> Any:
    self.scores.masked_fill(
        mask == 0,
        float("-inf"),
    )
    return self.scores


def dropped(x: Any) -> Any:
    F.dropout(x, 0.5)
    return x


def clamped(x: Any) -> Any:
    torch.clamp(x, 0, 1)
    return x


def assigned(scores: Any, mask: Any) -> Any:
    scores = scores.masked_fill(mask == 0, -1e9)
    return F.dropout(scores, 0.5)


def in_place(scores: Any, mask: Any) -> Any:
    scores.masked_fill_(mask == 0, -1e9)
    F.relu(scores, inplace=True)
    F.relu(scores, True)
    torch.clamp(scores, 0, 1, out=scores)
    return scores


def of_others(x: Any, items: list[int]) -> Any:
    items.append(1)
    torch.manual_seed(0)
    print(x.clamp(0))
    x.clamp(0).backward()
    x.permute(1, 0).copy_(x)
    [x.clamp(0) for _ in items]
    return x


def layers(self: Any, x: Any) -> Any:
    self.norm(x)
    self.act(x)
    self.batch_norm(x)
    return x


class Holder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.act, self.batch_norm = nn.LayerNorm(3), nn.ReLU(inplace=True), nn.BatchNorm1d(3)


def found(function: Callable[..., Any], **values: Any) -> list[tuple[str, int]]:
    code: Any = function.__code__
    calls = discarded_calls(Body(code, globals(), values))
    return [(each.function, each.at.line - code.co_firstlineno) for each in calls]


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (masked, [("scores.masked_fill", 1)]),
        (masked_below, [("self.scores.masked_fill", 1)]),
        (dropped, [("F.dropout", 1)]),
        (clamped, [("torch.clamp", 1)]),
        (assigned, []),
        (in_place, []),
        (of_others, []),
    ],
)
def test_what_is_dropped_is_found(function: Callable[..., Any], told: list[tuple[str, int]]) -> None:
    assert found(function) == told


def test_a_layer_that_does_not_work_in_place_only_computes() -> None:
    assert found(layers, self=Holder()) == [("self.norm", 1)]
    assert found(layers) == []


SCRIPT = """
F.softmax(scores, dim=1)
for _ in range(3):
    F.softmax(scores, dim=1)
while scores.sum() > 0:
    scores.clamp(
        0
    )
if scores is not None:
    scores.view(-1)
"""


def test_in_a_script_only_statements_in_a_loop_are_found() -> None:
    code = compile(SCRIPT, "script.py", "exec")
    calls = discarded_calls(Body(code, {"F": F}, {}))
    assert [(each.function, each.at.line) for each in calls] == [("F.softmax", 4), ("scores.clamp", 6)]
