"""Reads the facts about a module of an installed package from its source."""

from __future__ import annotations

import ast
import sys
import warnings
from functools import cache
from typing import TYPE_CHECKING

from instrumentor.resolve import bindings, catalogue, module_facts, own_object
from instrumentor.resolve.bindings import assigned_in, declared_parameter
from instrumentor.resolve.facts_cache import version_of
from instrumentor.resolve.module_facts import (
    OWN,
    Binding,
    Call,
    Choice,
    ClassFacts,
    Element,
    Expression,
    FunctionFacts,
    HeldFacts,
    Imported,
    Items,
    Member,
    ModuleFacts,
    Name,
    Nothing,
    Number,
    Other,
    StoredFacts,
    Table,
    Text,
    VariableFacts,
    names_in,
)
from instrumentor.resolve.own_object import (
    OF_MODULES,
    helper_of,
    is_computed,
    is_own,
    may_register,
    own_names,
    registers,
    stored_attributes,
    uses_of_attributes,
)
from instrumentor.source import nodes
from instrumentor.source.nodes import (
    children,
    decorators_of,
    imported_names,
    last_name,
    named_parameters,
    positional_parameters,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Set

# The first rows of a table say as much about its elements as a thousand do.
_MAX_ITEMS = 24
_MAX_TEXT = 120
_MAX_DEPTH = 12
_KINDS = {"staticmethod": "static", "classmethod": "class", "property": "property", "cached_property": "property"}
_OTHER = Other()
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@cache
def facts_version() -> str:
    """A short identifier of the code and constants on which facts depend, besides a module's bytes."""
    readers = (sys.modules[__name__], own_object, module_facts, bindings, nodes)
    return version_of(readers, catalogue.TENSOR_METHODS | OF_MODULES)


def read_facts(source: bytes) -> ModuleFacts:
    """The definitions in a module's source.

    Raises:
        SyntaxError: it is not Python, or its encoding is unknown.
        ValueError: it contains a null byte.
        RecursionError, MemoryError: it is nested too deeply for the parser.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in libraries do not concern the user
        tree = ast.parse(source)
    names: dict[str, list[Binding]] = {}
    stars: list[str] = []
    exported: list[str] | None = None
    for statement in _statements(tree.body):
        if isinstance(statement, ast.ClassDef):
            names.setdefault(statement.name, []).append(_class_facts(statement))
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names.setdefault(statement.name, []).append(_function_facts(statement, is_method=False))
        for name, variable in _assigned(statement):
            if name == "*":
                assert isinstance(variable.value, Imported)
                stars.append(variable.value.dotted)
            elif name == "__all__":
                exported = _strings(statement)
            elif variable.annotation is not None or not isinstance(variable.value, (Other, Text, Number)):
                names.setdefault(name, []).append(variable)
    return ModuleFacts(names, stars, exported)


def read_expression(text: str) -> Expression:
    """Read an expression, such as a string annotation.

    Raises:
        SyntaxError, ValueError: the text is no expression.
    """
    return _expression(ast.parse(text, mode="eval").body)


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body with its branches and loops, in order, without those of nested functions and classes."""
    pending = list(reversed(list(body)))
    while pending:
        statement = pending.pop()
        yield statement
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        inner: list[ast.stmt] = []
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):
            for child in getattr(statement, field, ()):
                inner.extend([child] if isinstance(child, ast.stmt) else child.body)
        pending.extend(reversed(inner))


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, VariableFacts]]:
    """The names that a statement binds, except classes and functions."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        for name, imported in imported_names(statement).items():
            module = imported.removesuffix("*").rstrip(".") or imported.removesuffix("*")
            yield name, VariableFacts(Imported(module if name == "*" else imported))
    elif isinstance(statement, ast.Assign):
        value = _expression(statement.value)
        for target in statement.targets:
            yield from _targets(target, value)
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        value = _expression(statement.value) if statement.value is not None else _OTHER
        yield statement.target.id, VariableFacts(value, _expression(statement.annotation))
    elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id, VariableFacts(_OTHER)
    elif type(statement).__name__ == "TypeAlias":  # from Python 3.12 on
        yield statement.name.id, VariableFacts(_expression(statement.value))  # type: ignore[attr-defined]
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        for item in statement.items:
            if isinstance(item.optional_vars, ast.Name):
                yield item.optional_vars.id, VariableFacts(_OTHER)
    elif isinstance(statement, (ast.For, ast.AsyncFor)):
        yield from _targets(statement.target, Element(_expression(statement.iter), [_OTHER]))


def _targets(target: ast.expr, value: Expression) -> Iterator[tuple[str, VariableFacts]]:
    if isinstance(target, ast.Name):
        yield target.id, VariableFacts(value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        for position, each in enumerate(target.elts):
            if isinstance(value, Items):
                yield from _targets(each, value.items[position] if position < len(value.items) else _OTHER)
            else:
                yield from _targets(each, Element(value, [Number(position)]))


def _strings(statement: ast.stmt) -> list[str] | None:
    """The strings in a list that a statement assigns; None for anything else."""
    value = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(value, (ast.List, ast.Tuple)):
        return None
    texts = [each.value for each in value.elts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return texts if len(texts) == len(value.elts) else None


# ---- functions and classes ----


def _function_facts(node: ast.FunctionDef | ast.AsyncFunctionDef, *, is_method: bool) -> FunctionFacts:
    declared = node.args
    positional = [each.arg for each in positional_parameters(declared)]
    everything = named_parameters(declared)
    returns: list[Expression] = []
    variables: dict[str, list[Expression]] = {}
    generates = False
    for statement in _statements(node.body):
        if isinstance(statement, ast.Return):
            returns.append(_expression(statement.value) if statement.value is not None else Nothing())
        elif isinstance(statement, ast.Expr):
            generates = generates or isinstance(statement.value, (ast.Yield, ast.YieldFrom))
        for name, variable in _assigned(statement):
            variables.setdefault(name, []).append(variable.value)
    kind = "generator" if generates else ""
    if is_method:
        decorators = set(map(last_name, decorators_of(node)))
        kind = next((_KINDS[name] for name in sorted(decorators & _KINDS.keys())), kind)
    return FunctionFacts(
        node.lineno,
        [each.arg for each in everything],
        len(positional),
        {each.arg: _expression(each.annotation) for each in everything if each.annotation is not None},
        _expression(node.returns) if node.returns is not None else None,
        returns,
        _needed(variables, returns),
        kind,
        not is_method and registers(node),
    )


def _needed(variables: dict[str, list[Expression]], returns: list[Expression]) -> dict[str, list[Expression]]:
    """The variables on which the returned values depend."""
    found: dict[str, list[Expression]] = {}
    pending = [name for each in returns for name in _roots(each)]
    while pending:
        name = pending.pop()
        if name in variables and name not in found:
            found[name] = variables[name]
            pending.extend(inner for each in variables[name] for inner in _roots(each))
    return found


def _roots(expression: Expression) -> Iterator[str]:
    return (dotted.partition(".")[0] for dotted in names_in(expression))


def _class_facts(node: ast.ClassDef) -> ClassFacts:
    methods: dict[str, FunctionFacts] = {}
    attributes: dict[str, Expression] = {}
    for statement in _statements(node.body):
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            methods[statement.name] = _function_facts(statement, is_method=True)
        else:
            attributes.update((name, variable.value) for name, variable in _assigned(statement) if name != "*")
    # A class without a base is no module class.
    held = held_facts(node) if node.bases else HeldFacts()
    return ClassFacts(node.lineno, [_expression(base) for base in node.bases], methods, attributes, held)


def held_facts(node: ast.ClassDef) -> HeldFacts:
    """What the code of a class stores in its instances, and how it uses that."""
    own = own_names(node)
    found: list[tuple[ast.AST, ast.AST | None]] = [(node, None)]  # each with the innermost function around it
    for each, around in found:
        function = each if isinstance(each, _FUNCTIONS) else around
        found.extend((child, function) for child in children(each))
    nodes = [each for each, _ in found]
    helpers = [_expression(helper) for each in nodes if (helper := helper_of(each, own)) is not None]
    names = [helper.dotted for helper in helpers if isinstance(helper, Name)]
    if len(names) < len(helpers) or any(may_register(each, own) for each in nodes):
        return HeldFacts(registers=True)
    stored: list[StoredFacts] = []
    for each, around in found:
        for attribute, value in stored_attributes(each, own):
            if any(is_computed(call.func) for call in _calls_in(value)):
                return HeldFacts(registers=True)
            stored.append(_stored_facts(attribute, value, around, own))
    called, with_called_elements, with_called_parts = map(sorted, uses_of_attributes(nodes, own))
    return HeldFacts(stored, called, with_called_elements, with_called_parts, helpers=list(dict.fromkeys(names)))


def _stored_facts(attribute: str, value: ast.expr, function: ast.AST | None, own: Set[str]) -> StoredFacts:
    """The facts about a value that a function stores in an attribute of the object that has the names `own`."""
    held = value
    while isinstance(held, ast.Subscript):
        held = held.value
    assigned: list[ast.expr] = []
    declared: ast.expr | None = None
    if isinstance(held, ast.Name) and isinstance(function, _FUNCTIONS):
        assigned = assigned_in(function, held.id)
        parameter = declared_parameter(function, held.id) if held is value else None
        declared = None if parameter is None else parameter.annotation
    return StoredFacts(
        attribute,
        _whole(value, own),
        [_whole_call(call, own, _MAX_DEPTH) for each in (value, *assigned) for call in _calls_in(each)],
        [_whole(each, own) for each in assigned],
        None if declared is None else _expression(declared),
    )


def _whole(node: ast.expr, own: Set[str], depth: int = 0) -> Expression:
    """A stored value, with all arguments of its calls. The object at hand, which has the names `own`, is `self`."""
    if depth > _MAX_DEPTH:
        return _OTHER
    if isinstance(node, (ast.Lambda, ast.Constant)):
        return Nothing()
    if isinstance(node, ast.Subscript):
        return Element(_whole(node.value, own, depth + 1), [])
    return _whole_call(node, own, depth) if isinstance(node, ast.Call) else _expression(node)


def _whole_call(node: ast.Call, own: Set[str], depth: int) -> Call:
    arguments = [_whole(each, own, depth + 1) for each in node.args]
    callee = node.func
    if isinstance(callee, ast.Attribute) and is_own(callee.value, own):
        return Call(Name(f"{OWN}{callee.attr}"), arguments, {})
    if isinstance(callee, ast.Attribute) and isinstance(callee.value, ast.Call):
        return Call(Member(_whole(callee.value, own, depth + 1), callee.attr), arguments, {})
    return Call(_expression(callee), arguments, {})


def calls_in(function: ast.AST) -> list[Call]:
    """All calls in a function."""
    return [_whole_call(each, frozenset(), 0) for each in _calls_in(function)]


def _calls_in(node: ast.AST) -> list[ast.Call]:
    return [each for each in walk(node) if isinstance(each, ast.Call)]


# ---- expressions ----


def _expression(node: ast.expr | None, depth: int = 0) -> Expression:
    """The part of an expression that may determine the result of a call."""
    reader = _READERS.get(type(node))
    return _OTHER if reader is None or depth > _MAX_DEPTH else reader(node, depth + 1)


def _constant(node: ast.Constant, _depth: int) -> Expression:
    if node.value is None:
        return Nothing()
    if isinstance(node.value, str):
        if len(node.value) <= _MAX_TEXT:
            return Text(node.value)
    elif type(node.value) is int and abs(node.value) < 2**31:
        return Number(node.value)
    return _OTHER


def _attribute(node: ast.Attribute, depth: int) -> Expression:
    of = _expression(node.value, depth)
    if isinstance(of, Name):
        return Name(f"{of.dotted}.{node.attr}")
    return _OTHER if isinstance(of, Other) else Member(of, node.attr)


def _call(node: ast.Call, depth: int) -> Expression:
    positional: list[Expression] = []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            break
        positional.append(_expression(argument, depth))
    keywords = {each.arg: _expression(each.value, depth) for each in node.keywords if each.arg is not None}
    return Call(_expression(node.func, depth), positional, keywords)


def _subscript(node: ast.Subscript, depth: int) -> Expression:
    index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return Element(_expression(node.value, depth), [_expression(each, depth) for each in index[:_MAX_ITEMS]])


def _items(node: ast.Tuple | ast.List, depth: int) -> Expression:
    return Items([_expression(each, depth) for each in node.elts[:_MAX_ITEMS]])


def _dict(node: ast.Dict, depth: int) -> Expression:
    return Table([_expression(each, depth) for each in node.values[:_MAX_ITEMS]])


def _set(node: ast.Set, depth: int) -> Expression:
    return Table([_expression(each, depth) for each in node.elts[:_MAX_ITEMS]])


def _comprehension(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, depth: int) -> Expression:
    element = node.value if isinstance(node, ast.DictComp) else node.elt
    for generator in node.generators:
        target = generator.target
        if isinstance(element, ast.Name) and isinstance(target, ast.Name) and element.id == target.id:
            return Table([Element(_expression(generator.iter, depth), [_OTHER])])
    return Table([_expression(element, depth)])


def _choice(*nodes: ast.expr, depth: int) -> Expression:
    return Choice([_expression(each, depth) for each in nodes[:_MAX_ITEMS]])


_READERS: dict[type, Callable[..., Expression]] = {
    ast.Name: lambda node, _: Name(node.id),
    ast.Constant: _constant,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Subscript: _subscript,
    ast.Tuple: _items,
    ast.List: _items,
    ast.Dict: _dict,
    ast.Set: _set,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.IfExp: lambda node, depth: _choice(node.body, node.orelse, depth=depth),
    ast.BoolOp: lambda node, depth: _choice(*node.values, depth=depth),
    ast.BinOp: lambda node, depth: (
        _choice(node.left, node.right, depth=depth) if isinstance(node.op, ast.BitOr) else _OTHER
    ),
    ast.Await: lambda node, depth: _expression(node.value, depth),
    ast.NamedExpr: lambda node, depth: _expression(node.value, depth),
}
