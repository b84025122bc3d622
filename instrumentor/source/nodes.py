"""The nodes of a parsed source, as `ast` tells them but in less than half the time."""

from __future__ import annotations

import ast

# The parser makes one object of each of these for all trees.
SHARED = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)

# With handlers of groups of exceptions, too, which Python has from 3.11 on.
TRIES: tuple[type[ast.AST], ...] = (ast.Try, getattr(ast, "TryStar", ast.Try))

# With template strings, which Python has from 3.14 on, and which know how their expressions are written.
FORMATTED: tuple[type[ast.AST], ...] = (ast.JoinedStr, getattr(ast, "TemplateStr", ast.JoinedStr))


def children(node: ast.AST) -> list[ast.AST]:
    """What lies directly in a node, in the order of its fields; operators and contexts aside."""
    found: list[ast.AST] = []
    for name in node._fields:
        held = getattr(node, name, None)
        if held.__class__ is list:
            found.extend([each for each in held if isinstance(each, ast.AST) and not isinstance(each, SHARED)])
        elif isinstance(held, ast.AST) and not isinstance(held, SHARED):
            found.append(held)
    return found


def walk(node: ast.AST) -> list[ast.AST]:
    """A node and all that lies in it, in the order of `ast.walk`; operators and contexts aside."""
    found = [node]
    for each in found:
        found.extend(children(each))
    return found


def last_name(node: ast.AST) -> str:
    """What a name, or the last part of a dotted one, is called; nothing for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
