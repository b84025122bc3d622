"""Modules are known under the names that a program gives them."""

from __future__ import annotations

import ast
import types

import pytest
import torch
from torch.nn import functional

from proxy_wrapper.program_code.imported_modules import module_of, modules_among, modules_imported

PROGRAM = """
import torch as th
import torch.nn.functional as Fn
import numpy.linalg
from torch import nn as layers
def train():
    from torch.nn import functional
from fire import F
from .torch import numpy as np
"""


@pytest.mark.parametrize(
    ("expression", "module"),
    [
        ("th", "torch"),
        ("th.nn.functional", "torch.nn.functional"),
        ("Fn", "torch.nn.functional"),
        ("functional", "torch.nn.functional"),
        ("layers.functional", "torch.nn.functional"),
        ("numpy", "numpy"),
        ("torch", "torch"),
        ("F", "fire.F"),
        ("model", ""),
        ("model.th", ""),
        ("th().nn", ""),
    ],
)
def test_the_module_that_an_expression_is(expression: str, module: str) -> None:
    modules = modules_imported(ast.parse(PROGRAM))
    assert module_of(ast.parse(expression, mode="eval").body, modules) == module


def test_modules_among_the_globals_of_a_function() -> None:
    names = {"th": torch, "Fn": functional, "model": torch.nn.Linear(1, 1), "own": types.ModuleType("own")}
    assert modules_among(names) == {"th": "torch", "Fn": "torch.nn.functional", "own": "own"}
