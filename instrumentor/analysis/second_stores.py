"""Whether reading an attribute of an object and storing it back can have an effect."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.outside import names_bound_in
from instrumentor.source.nodes import decorators_of

if TYPE_CHECKING:
    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.unit import Class

# Methods called for every attribute; `__init_subclass__` may add any of them to subclasses.
_INTERCEPTING = frozenset({"__setattr__", "__getattribute__", "__init_subclass__"})
_PLAIN_DECORATORS = frozenset({"dataclasses.dataclass", "functools.total_ordering", "typing.final"})
_PLAIN_METACLASSES = frozenset({"abc.ABCMeta", "builtins.type"})
# Expressions in a class body that are no descriptors.
_PLAIN_DEFAULTS = (ast.Constant, ast.List, ast.Dict, ast.Set, ast.Tuple, ast.UnaryOp)


def may_notice_second_store(hierarchy: Hierarchy, owner: Class, attribute: str) -> bool:
    """Whether a class, an ancestor or a descendant may do more than hold what is stored in an attribute."""
    if _has_other_base(hierarchy, owner):
        return True
    family = (owner, *hierarchy.descendants(owner))
    related = dict.fromkeys(each for cls in family for each in hierarchy.ancestors(cls))
    return any(_has_other_base(hierarchy, each) or _intercepts(hierarchy, each, attribute) for each in related)


def _has_other_base(hierarchy: Hierarchy, cls: Class) -> bool:
    """Whether a class or an ancestor has a base outside the project other than `object`."""
    return any(base is None or not base.startswith("builtins.object") for base in hierarchy.library_bases(cls))


def _intercepts(hierarchy: Hierarchy, cls: Class, attribute: str) -> bool:
    node, bound = cls.node, names_bound_in(cls.node)
    if not _INTERCEPTING.isdisjoint(bound) or not _INTERCEPTING.isdisjoint(cls.methods) or attribute in cls.methods:
        return True
    if any(hierarchy.resolve(cls.unit, each) not in _PLAIN_DECORATORS for each in decorators_of(node)):
        return True
    if any(hierarchy.resolve(cls.unit, each.value) not in _PLAIN_METACLASSES for each in node.keywords):
        return True
    return attribute in bound and not _has_plain_default(hierarchy, cls, attribute)


def _has_plain_default(hierarchy: Hierarchy, cls: Class, attribute: str) -> bool:
    """Whether the class body only gives an attribute plain defaults."""
    is_plain = False
    for statement in cls.node.body:
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)):
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if any(isinstance(each, ast.Name) and each.id == attribute for each in targets):
            value = statement.value
            is_field = isinstance(value, ast.Call) and hierarchy.resolve(cls.unit, value.func) == "dataclasses.field"
            if not (value is None or is_field or isinstance(value, _PLAIN_DEFAULTS)):
                return False
            is_plain = True
    return is_plain
