"""Expressions as text for users."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.resolve.bindings import spelling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# How many names are listed individually.
_MAX_NAMES = 4
# Longer chains of calls, attributes and elements are abbreviated.
_MAX_LINKS = 100


def text_of(node: ast.AST) -> str:
    """An expression as users read it, on one line and without spaces in its indexes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and '"' not in node.value:
        return f'"{node.value}"'
    if isinstance(node, ast.Subscript):
        return f"{text_of(node.value)}[{text_of(node.slice)}]"
    if isinstance(node, ast.Tuple):
        return ",".join(text_of(element) for element in node.elts)
    if isinstance(node, ast.Attribute):
        return f"{text_of(node.value)}.{node.attr}"
    return one_line(node)


def one_line(node: ast.AST) -> str:
    """An expression as Python spells it, on one line; of a very long chain, only the last link."""
    spelled = spelling(node) if isinstance(node, ast.expr) else ""
    if _has_many_links(node):  # each prefix of the chain may be requested too
        return f"(...).{node.attr}" if isinstance(node, ast.Attribute) else "(...)"
    return spelled if spelled[:1] not in ("", ".") else " ".join(ast.unparse(node).split())


def _has_many_links(node: ast.AST) -> bool:
    """Whether an expression is a long chain of calls, attributes and elements."""
    for _ in range(_MAX_LINKS):
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        else:
            return False
    return True


def receiver_text(node: ast.expr) -> str:
    """The text of the object whose method is called; empty if no method is."""
    return one_line(node.func.value) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""


def one_of(names: Iterable[str]) -> str:
    """Alternative names joined by "or"; of many, the first few and the number of the others."""
    different = list(dict.fromkeys(names))
    if len(different) <= _MAX_NAMES:
        return " or ".join(different)
    shown = different[: _MAX_NAMES - 1]
    return f"{', '.join(shown)} or one of {len(different) - len(shown)} more"


def starred_position(elements: Sequence[ast.expr]) -> int | None:
    """The position of the first starred element; None if there is none."""
    return next((i for i, each in enumerate(elements) if isinstance(each, ast.Starred)), None)
