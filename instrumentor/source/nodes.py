"""The nodes of a parsed source, as `ast` tells them but in less than half the time."""

from __future__ import annotations

import ast
from types import MappingProxyType

# The fields that hold no nodes, whatever has them; operators and contexts, of which the parser makes one for all trees.
_PLAIN_FIELDS = frozenset(
    {
        "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "kwd_attrs", "level", "module", "op", "ops",
        "rest", "simple", "tag", "type_comment",
    }
)  # fmt: skip
_CONSTANTS = (ast.Constant, ast.MatchSingleton)


def _fields_with_nodes(kind: type[ast.AST]) -> tuple[str, ...]:
    return () if issubclass(kind, _CONSTANTS) else tuple(each for each in kind._fields if each not in _PLAIN_FIELDS)


# The fields of each kind of node that may hold nodes.
_FIELDS = MappingProxyType(
    {
        kind: _fields_with_nodes(kind)
        for kind in vars(ast).values()
        if isinstance(kind, type) and issubclass(kind, ast.AST)
    }
)

# With handlers of groups of exceptions, too, which Python has from 3.11 on.
TRIES: tuple[type[ast.AST], ...] = (ast.Try, getattr(ast, "TryStar", ast.Try))

# With template strings, which Python has from 3.14 on, and which know how their expressions are written.
FORMATTED: tuple[type[ast.AST], ...] = (ast.JoinedStr, getattr(ast, "TemplateStr", ast.JoinedStr))

LOOPS = (ast.For, ast.AsyncFor, ast.While)

# What makes a container of what is written in it.
DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def positional_parameters(declared: ast.arguments) -> list[ast.arg]:
    """The parameters of a function that have positions, in their order; `*args` aside."""
    return [*declared.posonlyargs, *declared.args]


def named_parameters(declared: ast.arguments) -> list[ast.arg]:
    """The parameters of a function but for `*args` and `**kwargs`, in their order."""
    return [*positional_parameters(declared), *declared.kwonlyargs]


def all_parameters(declared: ast.arguments) -> list[ast.arg]:
    """All parameters of a function, `*args` and `**kwargs` last."""
    return [*named_parameters(declared), *filter(None, (declared.vararg, declared.kwarg))]


def parameters_with_defaults(declared: ast.arguments) -> list[tuple[ast.arg, ast.expr]]:
    """The parameters of a function that have a default, each with that."""
    positional = positional_parameters(declared)
    by_name = zip(declared.kwonlyargs, declared.kw_defaults, strict=True)
    return [
        *zip(positional[len(positional) - len(declared.defaults) :], declared.defaults, strict=True),
        *((parameter, default) for parameter, default in by_name if default is not None),
    ]


def children(node: ast.AST) -> list[ast.AST]:
    """What lies directly in a node, in the order of its fields; operators and contexts aside."""
    found: list[ast.AST] = []
    for name in _FIELDS[node.__class__]:
        held = getattr(node, name, None)
        if not held:  # as most are
            continue
        if held.__class__ is list:
            found += [each for each in held if isinstance(each, ast.AST)]
        elif isinstance(held, ast.AST):
            found.append(held)
    return found


def walk(node: ast.AST) -> list[ast.AST]:
    """A node and all that lies in it, in the order of `ast.walk`; operators and contexts aside."""
    found = [node]
    for each in found:
        if _FIELDS[each.__class__]:
            found += children(each)
    return found


def last_name(node: ast.AST) -> str:
    """What a name, or the last part of a dotted one, is called; nothing for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
