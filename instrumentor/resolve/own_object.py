"""The names of the object at hand in methods, and how methods may register modules in it unseen."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.resolve import catalogue
from instrumentor.resolve.bindings import spelling
from instrumentor.source.nodes import (
    arguments_of,
    children,
    last_name,
    named_parameters,
    positional_parameters,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence, Set
    from typing import TypeGuard

_REGISTERING = frozenset({"register_parameter", "add_module", "register_module", "__setattr__"})
_TABLES = frozenset({"_modules", "_parameters", "__dict__"})
_WITHOUT_OBJECT = frozenset({"staticmethod", "classmethod"})
# Members that show that an attribute is a module.
OF_MODULES = (catalogue.MODULE_EVIDENCE | catalogue.WEAK_EVIDENCE | {"forward"}) - catalogue.MOVES
# Functions that neither keep nor change their arguments.
_READING = frozenset(
    {"super", "isinstance", "hasattr", "getattr", "delattr", "callable", "type", "id", "hash", "len", "str", "repr"}
    | {"print", "iter", "next", "bool", "sorted", "list", "tuple", "set", "dir"}
)


def own_names(cls: ast.ClassDef) -> frozenset[str]:
    """The names that methods of a class use for its instance: `self`, first parameters, and copies of them.

    A copy counts if the assignment is directly in the method: `module = self`. In `__new__`, the result of the
    inherited `__new__` counts anywhere.
    """
    names = {"self"}
    for method in cls.body:
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and not _is_without_object(method):
            names.update(each.arg for each in positional_parameters(method.args)[:1])
            made = walk(method) if method.name == "__new__" else ()
            names.update(name for node in made for name in _names_of_new(node))
            for statement in method.body:
                if isinstance(statement, ast.Assign) and is_own(statement.value, names):
                    names.update(each.id for each in statement.targets if isinstance(each, ast.Name))
    return frozenset(names)


def _names_of_new(node: ast.AST) -> Iterator[str]:
    """The names that a statement binds to the result of `__new__`: `made = super().__new__(cls)`.

    They may be attributes of the class: `cls.instance = super().__new__(cls)`.
    """
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
        function = node.value.func
        if isinstance(function, ast.Attribute) and function.attr == "__new__":
            yield from filter(None, map(_name_of, node.targets))


def _name_of(node: ast.AST | None) -> str:
    """A name or an attribute of a name, as spelled; "" for other expressions."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _is_without_object(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id in _WITHOUT_OBJECT for each in method.decorator_list)


def is_own(node: ast.AST | None, names: Set[str]) -> bool:
    """Whether an expression is the object at hand, by one of its names."""
    return isinstance(node, (ast.Name, ast.Attribute)) and _name_of(node) in names


def may_register(node: ast.AST, names: Set[str]) -> bool:
    """Whether a node may register a parameter or a module in the object at hand, other than by storing an attribute.

    The ways are `register_parameter`, `add_module` and the like, `setattr`, and the dicts behind the attributes.
    """
    if isinstance(node, ast.Attribute):
        return node.attr in _TABLES and is_own(node.value, names)
    if not isinstance(node, ast.Call):
        return False
    called = last_name(node.func)
    if called in _REGISTERING and isinstance(node.func, ast.Attribute) and is_own(node.func.value, names):
        return True
    if called != "setattr":
        return called in _REGISTERING and _is_passed(node, names)
    return _is_passed(node, names) and not (
        len(node.args) == 3 and isinstance(node.args[2], (ast.Constant, ast.Lambda))
    )


def stored_attributes(node: ast.AST, names: Set[str]) -> Iterator[tuple[str, ast.expr]]:
    """The attributes of the object at hand that a node stores to, each with the stored value or what contains it."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        targets = [node.target]
    value = getattr(node, "value", None)
    for target in targets:
        for each in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
            if is_attribute(each, names) and isinstance(value, ast.expr):
                yield each.attr, value


def uses_of_attributes(nodes: Sequence[ast.AST], names: Set[str]) -> tuple[set[str], set[str], set[str]]:
    """The attributes of the object at hand by their uses, as in `HeldFacts`.

    Returns:
        Those that are called, iterated over, or used as modules; those of which elements are called; and those of which
        a member is called.
    """
    called = _attributes_iterated(nodes, names) | _attributes_called_by_other_names(nodes, names)
    with_called_elements: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Call):
            held = node.func
            while isinstance(held, ast.Subscript):
                held = held.value
            if is_attribute(held, names):
                (called if held is node.func else with_called_elements).add(held.attr)
        elif isinstance(node, ast.Attribute) and node.attr in OF_MODULES and is_attribute(node.value, names):
            called.add(node.value.attr)
    return called, with_called_elements, _attributes_with_called_parts(nodes, names)


def _attributes_iterated(nodes: Iterable[ast.AST], names: Set[str]) -> set[str]:
    """The attributes that loops iterate over, directly or by their length; not the numbers in a `range`."""
    pending: list[ast.AST] = [node.iter for node in nodes if isinstance(node, (ast.For, ast.comprehension))]
    found: set[str] = set()
    while pending:
        node = pending.pop()
        if is_attribute(node, names):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and spelling(node.func) == "range":
            pending.extend(each for each in walk(node) if isinstance(each, ast.Call) and spelling(each.func) == "len")
        else:
            pending.extend(children(node))
    return found


def _attributes_with_called_parts(nodes: Iterable[ast.AST], names: Set[str]) -> set[str]:
    """The attributes of the object at hand of which a member is called: `encoder` in `self.encoder.layer1(x)`.

    Methods of tensors are no evidence.
    """
    found = set()
    for node in nodes:
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr not in catalogue.TENSOR_METHODS:
            held = called.value
            while isinstance(held, ast.Attribute):
                if is_own(held.value, names):
                    found.add(held.attr)
                held = held.value
    return found


def _attributes_called_by_other_names(nodes: Iterable[ast.AST], names: Set[str]) -> set[str]:
    """The attributes of the object at hand that are called by a variable: `net = self.net; net(x)`."""
    called: set[str] = set()
    held: dict[str, set[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.add(node.func.id)
        elif isinstance(node, ast.Assign):
            attributes = {each.attr for each in _choices(node.value) if is_attribute(each, names)}
            for target in node.targets if attributes else ():
                if isinstance(target, ast.Name):
                    held.setdefault(target.id, set()).update(attributes)
    return {attribute for name, attributes in held.items() if name in called for attribute in attributes}


def _choices(value: ast.expr) -> list[ast.expr]:
    """The alternatives of which an expression's value is one."""
    if isinstance(value, ast.IfExp):
        return [*_choices(value.body), *_choices(value.orelse)]
    return [each for inner in value.values for each in _choices(inner)] if isinstance(value, ast.BoolOp) else [value]


def is_attribute(node: ast.AST | None, names: Set[str]) -> TypeGuard[ast.Attribute]:
    """Whether an expression is an attribute of the object at hand."""
    return isinstance(node, ast.Attribute) and is_own(node.value, names)


def is_computed(callee: ast.expr) -> bool:
    """Whether a callee is an element of a table or the result of another call: `resnets[depth](pretrained)`."""
    return isinstance(callee, (ast.Subscript, ast.Call))


def helper_of(node: ast.AST, names: Set[str]) -> ast.expr | None:
    """The function to which a node passes the object at hand and which may register something in it; else None.

    Methods to which classes usually pass their object do not: `Base.__init__(self)`, `Base.forward(self, x)`.
    """
    if not isinstance(node, ast.Call) or not _is_passed(node, names):
        return None
    called = last_name(node.func)
    if called in _READING or called in _REGISTERING or called in {"setattr", "forward"} or called.startswith("__"):
        return None
    return node.func


def registers(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    """Whether a function may register something in one of its arguments, or pass it on."""
    declared = function.args
    given = named_parameters(declared)
    names = {each.arg for each in given}
    if declared.vararg is not None or declared.kwarg is not None:
        return True
    return bool(names) and any(
        may_register(node, names) or helper_of(node, names) is not None or _is_stored_into(node, names)
        for node in walk(function)
    )


def _is_stored_into(node: ast.AST, names: Set[str]) -> bool:
    """Whether a node sets an attribute of an object, or gives the object another name."""
    if isinstance(node, ast.Attribute):
        return isinstance(node.ctx, ast.Store) and is_own(node.value, names)
    return isinstance(node, (ast.Assign, ast.NamedExpr)) and is_own(node.value, names)


def _is_passed(node: ast.Call, names: Set[str]) -> bool:
    return any(is_own(each, names) for each in arguments_of(node))
