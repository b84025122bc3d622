"""Reads which variables hold scalers, and which data a scaler is given."""

from __future__ import annotations

import ast
import re
from typing import Final

from proxy_wrapper.program_code.syntax import is_variable, last_name

_SCALER: Final = re.compile(r"\w*Scaler|PowerTransformer|QuantileTransformer")
_NO_SCALER: Final = frozenset({"GradScaler", "GradientScaler", "LossScaler"})
_KEEPING: Final = frozenset({"reshape", "to_numpy", "astype", "numpy", "copy", "view", "float", "unsqueeze"})
"""Methods whose result has all rows."""


def makes_scaler(value: ast.expr) -> bool:
    """Whether an expression creates a scaler, and perhaps fits it."""
    if not isinstance(value, ast.Call):
        return False
    if isinstance(value.func, ast.Attribute) and value.func.attr == "fit":
        return makes_scaler(value.func.value)
    name = last_name(value.func)
    return _SCALER.fullmatch(name) is not None and name not in _NO_SCALER


def variable_in(value: ast.expr) -> str | None:
    """The variable that has the rows of an expression: `df` for `df[["close"]].values.reshape(-1, 1)`.

    None if it may have only some of the rows.
    """
    while not is_variable(value) or (isinstance(value, ast.Attribute) and value.attr == "values"):
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _KEEPING:
            value = value.func.value
        elif isinstance(value, ast.Attribute) or (isinstance(value, ast.Subscript) and _selects_columns(value.slice)):
            value = value.value
        else:
            return None
    return ast.unparse(value)


def _selects_columns(index: ast.expr) -> bool:
    """Whether an index selects columns by name, or all rows."""
    if isinstance(index, ast.Tuple):
        first = index.elts[0] if index.elts else None
        return isinstance(first, ast.Slice) and first.lower is first.upper is None
    names = index.elts if isinstance(index, ast.List) else [index]
    return all(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in names)
