"""Models that a library makes inside its own objects: they get their proxy where such an object is named."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.analysis.placement import Place, Placement, name_of
from instrumentor.analysis.spelling import text_of
from instrumentor.resolve.bindings import parameter_around
from instrumentor.resolve.unit import Class

if TYPE_CHECKING:
    from instrumentor.analysis.facts import Facts
    from instrumentor.resolve.catalogue import Holding
    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.unit import Unit


class HeldModel(NamedTuple):
    """A model that a call makes out of sight, for the object that it returns.

    Attributes:
        call: the call.
        label: what is called.
        attribute: the object's attribute that holds the model.
        place: after the statement that names the object; None if the object is used before it has a name.
    """

    call: ast.Call
    label: str
    attribute: str
    place: Placement | None


def find_held_models(unit: Unit, facts: Facts, hierarchy: Hierarchy) -> list[HeldModel]:
    """The models that libraries make inside objects of a file, in the order of the text."""
    calls = [node for node in unit.parents if isinstance(node, ast.Call)]
    found = [model for call in calls if (model := held_by(unit, call, facts, hierarchy)) is not None]
    return sorted(found, key=lambda each: (each.call.lineno, each.call.col_offset))


def held_by(unit: Unit, node: ast.AST, facts: Facts, hierarchy: Hierarchy) -> HeldModel | None:
    """The model that a node makes out of sight; None if it makes none, or is passed one."""
    if not isinstance(node, ast.Call):
        return None
    label, held = _callee(unit, node, facts, hierarchy)
    if held is None or any(each.arg == held.putting_off for each in node.keywords):
        return None
    if held.argument and _is_passed_model(unit, node, held.argument, facts):
        return None
    return HeldModel(node, label, held.attribute, _place(unit, node, held.attribute))


def _callee(unit: Unit, call: ast.Call, facts: Facts, hierarchy: Hierarchy) -> tuple[str, Holding | None]:
    """What is called, and how that holds a model made for it; a class of the project is what the one above it is.

    Unless it has a method or property of its own in the place of the attribute.
    """
    found = hierarchy.resolve(unit, call.func)
    spelled = hierarchy.names_in_libraries(unit, call.func)
    for name in spelled or _names_meant(call, facts):
        held = hierarchy.knowledge.holding(name)
        if held is None or not (spelled or _imports(unit, name)):
            continue
        if not isinstance(found, Class):
            return name, held
        if hierarchy.method(found, held.attribute) is None:
            return found.name, held
    return "", None


def _names_meant(call: ast.Call, facts: Facts) -> list[str]:
    """The possible callees of a call such as `kinds[name](...)`, by the analysis."""
    place = facts.places.get(call)
    site = None if place is None else facts.sites.peek(place)
    return [] if site is None else site.labels


def _imports(unit: Unit, name: str) -> bool:
    """Whether a file itself imports a library's name, or a module that contains it."""
    return any(f"{name}.".startswith(f"{each}.") for each in unit.imports.values())


def _is_passed_model(unit: Unit, call: ast.Call, parameter: str, facts: Facts) -> bool:
    """Whether an argument may be a model itself, not only the name of one; True if the argument is missing."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == parameter]
    passed = [*named, *call.args[:1]]
    if not passed or isinstance(passed[0], (ast.Call, ast.Starred)):
        return True
    if isinstance(passed[0], ast.Constant):
        return not isinstance(passed[0].value, str)
    text = text_of(passed[0])
    values = [binding.value for binding in facts.bindings.values() if binding.unit is unit and binding.text == text]
    if values:
        return any(atom.is_object for value in values for atom in value)
    return isinstance(passed[0], ast.Name) and parameter_around(unit, passed[0]) is not None


def _place(unit: Unit, call: ast.Call, attribute: str) -> Placement | None:
    statement = unit.parents[call]
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None
    # The added line evaluates the target twice more.
    if not isinstance(target, (ast.Name, ast.Attribute)) or not all(
        isinstance(node, (ast.Name, ast.Attribute, ast.expr_context)) for node in ast.walk(target)
    ):
        return None
    text, name = f"{text_of(target)}.{attribute}", f"{name_of(target)}.{attribute}"
    return Placement(Place.LINE, statement, call, target, text, name, can_inline=False, part=f".{attribute}")
