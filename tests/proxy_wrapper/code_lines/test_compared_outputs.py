"""Counts of how often the output of a model equals a variable are found by the code."""

from __future__ import annotations

import ast
import textwrap

import pytest

from proxy_wrapper.code_lines.compared_outputs import compared_output

LOOP = """
def test(model, loader):
    correct = 0
    for x, y in loader:
        {}
        {}
    return correct
"""


def found(called: str, counted: str) -> tuple[int, str, bool, str] | None:
    function = ast.parse(textwrap.dedent(LOOP.format(called, counted))).body[0]
    return compared_output(function, 5, lambda each: ast.unparse(each) == "model")


@pytest.mark.parametrize(
    ("called", "counted", "is_index"),
    [
        ("out = model(x)", "correct += ((out > 0).float() == y).sum().item()", False),
        ("out = model(x)", "correct += (y == torch.round(torch.sigmoid(out))).sum()", False),
        ("pred = model(x).sigmoid().round()", "correct += pred.eq(y).sum()", False),
        ("pred = model(x) > 0.5", "acc = (pred == y.bool()).float().mean()", False),
        ("out = model(x)", "correct += (out.argmax(1) == y).sum()", True),
        ("out = model(x)", "correct += torch.sum(torch.argmax(out, dim=1) == y)", True),
        ("out = model(x)", "_, pred = torch.max(out, 1); correct += (pred == y).sum()", True),
        ("out = model(x)", "pred = torch.max(out.data, 1)[1]; correct += (pred == y).sum()", True),
        ("out = model(x)", "correct += (out.max(dim=1).indices == y).sum()", True),
    ],
)
def test_a_count_of_equal_values(called: str, counted: str, is_index: bool) -> None:
    assert found(called, counted) == (6, "y", is_index, "")


@pytest.mark.parametrize(
    ("called", "counted", "is_index"),
    [
        ("pred = (model(x)[mask] > 0).float()", "acc = (pred == y[mask]).float().mean()", False),
        ("out = model(x)", "correct += (out[mask].argmax(1) == y[mask]).sum()", True),
        ("pred = model(x).argmax(1)", "correct += (pred[mask] == y[mask]).sum()", True),
    ],
)
def test_a_count_of_selected_values(called: str, counted: str, is_index: bool) -> None:
    assert found(called, counted) == (6, "y", is_index, "mask")


@pytest.mark.parametrize(
    ("called", "counted"),
    [
        pytest.param("out = model(x).squeeze(1)", "correct += (out == y).sum()", id="another shape at once"),
        pytest.param("out = model(x)", "out = out.view(-1); correct += (out == y).sum()", id="assigned twice"),
        pytest.param("out = model(x)", "correct += (out.squeeze() == y).sum()", id="another shape"),
        pytest.param("out = model(x)", "correct += (out == y.unsqueeze(1)).sum()", id="another shape of labels"),
        pytest.param("out = model(x)", "y = y[:, None]; correct += (out == y).sum()", id="labels assigned later"),
        pytest.param("out = model(x)", "correct += (out.max(0) == y).sum()", id="another function"),
        pytest.param("out = model(x)", "correct += (out.argmax(0) == y).sum()", id="another dimension"),
        pytest.param("out = model(x)", "correct += (out.max(1)[0] == y).sum()", id="the largest itself"),
        pytest.param("out = model(x)", "pairs = out == y", id="not counted"),
        pytest.param("out = model(x)", "correct += (out[mask] == y).sum()", id="selected outputs only"),
        pytest.param("out = model(x)", "correct += (out[mask] == y[other]).sum()", id="selected in two ways"),
        pytest.param("out = model(x)", "mask = y > 0; correct += (out[mask] == y[mask]).sum()", id="selected later"),
        pytest.param("out = other(x)", "correct += (out == y).sum()", id="another model"),
    ],
)
def test_other_comparisons(called: str, counted: str) -> None:
    assert found(called, counted) is None


def test_another_loop_may_use_the_same_variables() -> None:
    text = """
    for x, y in train_loader:
        out = model(x).squeeze()
    for x, y in test_loader:
        out = model(x)
        correct += ((out > 0) == y).sum()
    """
    script = ast.parse(textwrap.dedent(text))
    assert compared_output(script, 5, lambda each: ast.unparse(each) == "model") == (6, "y", False, "")


def test_torch_under_another_name() -> None:
    function = ast.parse(textwrap.dedent(LOOP.format("out = model(x)", "n += (th.argmax(out, 1) == y).sum()"))).body[0]
    for modules, expected in (({"th": "torch"}, (6, "y", True, "")), ({}, None)):
        assert compared_output(function, 5, lambda each: ast.unparse(each) == "model", modules) == expected
