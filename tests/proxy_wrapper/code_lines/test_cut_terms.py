"""A term that the source cuts off the graph of a loss is found; terms that train, or never could, are not."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from proxy_wrapper.code_lines.cut_terms import cut_term

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType


def syntax_of(code: CodeType) -> Any:
    tree = ast.parse(textwrap.dedent(inspect.getsource(sys.modules[__name__])))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return next(node for node in functions if node.lineno == code.co_firstlineno)


class Accelerator:
    """Its `backward` tells which line cuts a term off, counted from the first of its function."""

    def backward(self, loss: torch.Tensor) -> tuple[str, int] | None:
        found = cut_term(sys._getframe(1), loss.grad_fn, syntax_of, lambda code: code.co_filename == __file__)
        return None if found is None else (found.code.co_name, found.line - found.code.co_firstlineno)

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        return loss * 1024.0


accelerator = Accelerator()


def item(w: Any, x: Any) -> Any:
    loss = (w * x).sum() + 0.1 * w.norm().item()
    return accelerator.backward(loss)


def item_first(w: Any, x: Any) -> Any:
    loss = 0.1 * w.norm().item() + (w * x).sum()
    return accelerator.backward(accelerator.scale(loss))


def data_of_variable(w: Any, x: Any) -> Any:
    weight = 0.5
    penalty = w.data.norm()
    return accelerator.backward(((w * x).sum() - weight * penalty) / 2)


def objective(error: Any, w: Any, beta: float = 0.5) -> Any:
    penalty = w.norm()
    return error + beta * penalty.item(), penalty


def returned(w: Any, x: Any) -> Any:
    loss, _ = objective((w * x).sum(), w)
    return accelerator.backward(loss)


def parts(w: Any) -> Any:
    found = []
    for index, each in enumerate(w):
        if index:
            found.append(each.data**2)
    return torch.tensor(found).mean()


def new_tensor(w: Any, x: Any) -> Any:
    loss = (w * x).sum()
    loss += parts(w)
    return accelerator.backward(loss)


class Penalty(nn.Module):
    def forward(self, w: Any) -> Any:
        return torch.tensor([each.item() for each in w]).sum()


def module(w: Any, x: Any) -> Any:
    criterion = Penalty()
    penalty = criterion(w)
    loss = -((w * x).sum() + penalty)
    return accelerator.backward(loss)


def dice(scores: Any, x: Any) -> Any:
    chosen = (scores.sigmoid() > 0.5).float()
    overlap = (chosen * x).sum()
    return 1 - 2 * overlap / (chosen.sum() + x.sum())


def thresholded(w: Any, x: Any) -> Any:
    scores = w * x
    loss = scores.sum() + dice(scores, x)
    return accelerator.backward(loss)


def largest(w: Any, x: Any) -> Any:
    loss = (w * x).sum() + 0.5 * (torch.argmax(w) - 1.0).abs()
    return accelerator.backward(loss)


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (thresholded, ("dice", 1)),
        (largest, ("largest", 1)),
        (item, ("item", 1)),
        (item_first, ("item_first", 1)),
        (data_of_variable, ("data_of_variable", 2)),
        (returned, ("objective", 2)),
        (new_tensor, ("parts", 5)),
        (module, ("forward", 1)),
    ],
)
def test_a_term_that_is_cut_off_is_found(function: Callable[[Any, Any], Any], found: tuple[str, int]) -> None:
    assert function(torch.ones(3, requires_grad=True), torch.ones(3)) == found


def detached(w: Any, x: Any) -> Any:
    loss = (w * x).sum() + w.norm().detach().data
    return accelerator.backward(loss)


def weight_of_a_term(w: Any, x: Any) -> Any:
    loss = (w * w.norm().item()).sum() + x.sum()
    return accelerator.backward(loss)


def of_the_data(w: Any, x: Any) -> Any:
    loss = (w * x).sum() - x.var().item()
    return accelerator.backward(loss)


def of_a_teacher(w: Any, x: Any) -> Any:
    teacher = nn.Linear(3, 1)
    with torch.no_grad():
        entropy = teacher(x).square().mean()
    loss = (w * x).sum() - entropy.item()
    return accelerator.backward(loss)


def choice_of_the_data(w: Any, x: Any) -> Any:
    loss = (w * x).sum() + dice(x, x)
    return accelerator.backward(loss)


def choice_that_is_not_tracked(w: Any, x: Any) -> Any:
    with torch.no_grad():
        accuracy = (w > 0).float().mean()
    loss = (w * x).sum() + accuracy
    return accelerator.backward(loss)


def choice_that_weights(w: Any, x: Any) -> Any:
    loss = (w * x).sum() + (w.square() * (w > 0).float()).sum()
    return accelerator.backward(loss)


def constants(w: Any, x: Any) -> Any:
    margin = torch.tensor(0.5)
    loss = (w * x).sum() + margin + 0.5
    return accelerator.backward(loss)


def branches(w: Any, x: Any) -> Any:
    other = 0.0
    if x.requires_grad:
        other = w.norm().item()
    loss = (w * x).sum() + other + (w.norm().item() if x.requires_grad else 0.0)
    return accelerator.backward(loss)


def divided(w: Any, x: Any) -> Any:
    loss = (w * x).sum() / w.norm().item()
    return accelerator.backward(loss)


def an_index(w: Any, x: Any) -> Any:
    loss = (w * x).sum() + x[w.argmax().item()]
    return accelerator.backward(loss)


@pytest.mark.parametrize(
    "function",
    [
        *(detached, weight_of_a_term, of_the_data, of_a_teacher, constants, branches, divided, an_index),
        *(choice_of_the_data, choice_that_is_not_tracked, choice_that_weights),
    ],
)
def test_what_trains_or_could_not_is_left_alone(function: Callable[[Any, Any], Any]) -> None:
    assert function(torch.ones(3, requires_grad=True), torch.ones(3)) is None
