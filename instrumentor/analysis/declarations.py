"""Evidence from annotations in the project's files about objects whose class is not seen."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.values import Instance, Pack, Value
from instrumentor.resolve import catalogue
from instrumentor.resolve.bindings import annotated_items

if TYPE_CHECKING:
    from instrumentor.analysis.scope import Scope
    from instrumentor.resolve.unit import Function, Unit


def note_declared(scope: Scope, unit: Unit, annotation: ast.expr | None, held: Value) -> None:
    """Record an annotation as evidence about the value of what it annotates."""
    if annotation is None or not any(atom.is_object or isinstance(atom, Pack) for atom in held):
        return  # resolving the annotation could read files that nothing else needs
    said = scope.hierarchy.declaration(unit, annotation)
    if said.is_module:
        scope.facts.note_evidence(held, catalogue.DECLARED)
    elif said.names:
        scope.facts.note_declared(held, said.names)
    items = annotated_items(annotation)
    for atom in held if items else ():
        if isinstance(atom, Pack) and len(atom.items) == len(items):
            for each, item in zip(items, atom.items, strict=True):
                note_declared(scope, unit, each, item)


def note_declared_parameters(scope: Scope, function: Function) -> None:
    """Record the annotations of a function's parameters as evidence about their values on entry."""
    declared = function.node.args
    several = (declared.vararg, declared.kwarg)
    for each in (*declared.posonlyargs, *declared.args, *declared.kwonlyargs, *several):
        if each is not None and each.annotation is not None:
            held = scope.env.held(each.arg) or frozenset()
            note_declared(scope, scope.unit, each.annotation, scope.facts.contents.reach(held))


def note_declared_target(scope: Scope, target: ast.expr, statement: ast.stmt, held: Value, receiver: Value) -> None:
    """Record the declaration of a variable or attribute, wherever it is written, as evidence about the stored value."""
    if isinstance(statement, ast.AnnAssign) and statement.target is target:
        note_declared(scope, scope.unit, statement.annotation, held)
    elif isinstance(target, ast.Name):
        owner = scope.function.node if scope.function is not None else scope.unit.tree
        around = scope.class_body.node if scope.class_body is not None else owner
        note_declared(scope, scope.unit, scope.hierarchy.declared(scope.unit).get((around, target.id)), held)
    elif isinstance(target, ast.Attribute):
        for atom in receiver:
            cls = scope.kinds.class_of(atom.key) if isinstance(atom, Instance) else None
            for each in () if cls is None else scope.hierarchy.ancestors(cls):
                annotation = scope.hierarchy.declared(each.unit).get((each.node, target.attr))
                note_declared(scope, each.unit, annotation, held)
