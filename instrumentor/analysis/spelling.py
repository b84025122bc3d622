"""Expressions as people write them."""

from __future__ import annotations

import ast


def text_of(node: ast.AST) -> str:
    """An expression as people write it, on one line and without blanks in its indices."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and '"' not in node.value:
        return f'"{node.value}"'
    if isinstance(node, ast.Subscript):
        return f"{text_of(node.value)}[{text_of(node.slice)}]"
    if isinstance(node, ast.Tuple):
        return ",".join(text_of(element) for element in node.elts)
    if isinstance(node, ast.Attribute):
        return f"{text_of(node.value)}.{node.attr}"
    return " ".join(ast.unparse(node).split())
