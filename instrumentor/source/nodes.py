"""Walks AST nodes like `ast`, in less than half the time, and takes common parts out of them."""

from __future__ import annotations

import ast
from types import MappingProxyType

# Fields that never hold nodes, and those with operators and contexts, which the parser shares between all trees.
_PLAIN_FIELDS = frozenset(
    {
        "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "kwd_attrs", "level", "module", "op", "ops",
        "rest", "simple", "tag", "type_comment",
    }
)  # fmt: skip
_WITHOUT_NODES = (ast.Constant, ast.MatchSingleton, ast.Global, ast.Nonlocal)
# Fields with lists in which there may be None, for a key that `**` takes the place of and a default that is not there.
_WITH_GAPS = frozenset({"keys", "kw_defaults"})


def _fields_with_nodes(kind: type[ast.AST]) -> tuple[str, ...]:
    return () if issubclass(kind, _WITHOUT_NODES) else tuple(each for each in kind._fields if each not in _PLAIN_FIELDS)


# The fields of each kind of node that may hold nodes.
_FIELDS = MappingProxyType(
    {
        kind: _fields_with_nodes(kind)
        for kind in vars(ast).values()
        if isinstance(kind, type) and issubclass(kind, ast.AST)
    }
)

# Includes `except*`, which exists from Python 3.11 on.
TRIES: tuple[type[ast.AST], ...] = (ast.Try, getattr(ast, "TryStar", ast.Try))

# Includes template strings, which exist from Python 3.14 on and keep the text of their expressions.
FORMATTED: tuple[type[ast.AST], ...] = (ast.JoinedStr, getattr(ast, "TemplateStr", ast.JoinedStr))

LOOPS = (ast.For, ast.AsyncFor, ast.While)

# Expressions that build a container from the elements written in them.
DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def positional_parameters(declared: ast.arguments) -> list[ast.arg]:
    """The positional parameters of a function in order, without `*args`."""
    return [*declared.posonlyargs, *declared.args]


def named_parameters(declared: ast.arguments) -> list[ast.arg]:
    """The parameters of a function in order, without `*args` and `**kwargs`."""
    return [*positional_parameters(declared), *declared.kwonlyargs]


def all_parameters(declared: ast.arguments) -> list[ast.arg]:
    """All parameters of a function, `*args` and `**kwargs` last."""
    return [*named_parameters(declared), *filter(None, (declared.vararg, declared.kwarg))]


def parameters_with_defaults(declared: ast.arguments) -> list[tuple[ast.arg, ast.expr]]:
    """The parameters of a function that have a default, each with its default."""
    positional = positional_parameters(declared)
    by_name = zip(declared.kwonlyargs, declared.kw_defaults, strict=True)
    return [
        *zip(positional[len(positional) - len(declared.defaults) :], declared.defaults, strict=True),
        *((parameter, default) for parameter, default in by_name if default is not None),
    ]


def arguments_of(node: ast.Call) -> list[ast.expr]:
    """The arguments of a call."""
    return [*node.args, *(each.value for each in node.keywords)]


def elements_of(display: ast.AST) -> list[ast.expr]:
    """The elements of a container display or comprehension."""
    if isinstance(display, ast.Dict):
        return display.values
    if isinstance(display, ast.DictComp):
        return [display.value]
    if isinstance(display, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return [display.elt]
    return display.elts if isinstance(display, (ast.List, ast.Tuple, ast.Set)) else []


def decorators_of(node: ast.AST) -> list[ast.expr]:
    """The decorators of a definition; of those that are called, what is called."""
    return [each.func if isinstance(each, ast.Call) else each for each in getattr(node, "decorator_list", ())]


def children(node: ast.AST) -> list[ast.AST]:
    """The direct children of a node in field order, without operators and contexts."""
    found: list[ast.AST] = []
    for name in _FIELDS[node.__class__]:
        held = getattr(node, name, None)
        if not held:  # the most common case
            continue
        if held.__class__ is list:
            found += held if name not in _WITH_GAPS else filter(None, held)
        elif isinstance(held, ast.AST):
            found.append(held)
    return found


def walk(node: ast.AST) -> list[ast.AST]:
    """A node and all its descendants in the order of `ast.walk`, without operators and contexts."""
    found = [node]
    fields = _FIELDS
    for each in found:  # as `children` does: a call for each node would take half as long again
        for name in fields[each.__class__]:
            held = getattr(each, name, None)
            if not held:
                continue
            if held.__class__ is list:
                found += held if name not in _WITH_GAPS else filter(None, held)
            elif isinstance(held, ast.AST):
                found.append(held)
    return found


def last_name(node: ast.AST) -> str:
    """The identifier of a name, or the last one of a dotted name; empty for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def imported_names(statement: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """The names that an import binds, with their targets; `*` is included literally."""
    if isinstance(statement, ast.Import):
        return {
            alias.asname or alias.name.partition(".")[0]: alias.name if alias.asname else alias.name.partition(".")[0]
            for alias in statement.names
        }
    module = "." * statement.level + (statement.module or "")
    joint = "" if module.endswith(".") or not module else "."
    return {alias.asname or alias.name: f"{module}{joint}{alias.name}" for alias in statement.names}
