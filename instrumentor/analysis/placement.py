"""Where in the text the proxy of a new object can be inserted."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.analysis.blocks import COMPREHENSIONS, statement_of
from instrumentor.analysis.second_stores import may_notice_second_store
from instrumentor.analysis.spelling import text_of
from instrumentor.resolve.catalogue import HARMLESS_METHODS, IDENTITY_METHODS, Effect
from instrumentor.resolve.unit import Class, Function, Unit
from instrumentor.source.nodes import FORMATTED, parameters_with_defaults, positional_parameters, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from instrumentor.analysis.facts import Facts
    from instrumentor.resolve.classes import Hierarchy


# Nodes that may not occur in a generator expression's iterable, or that change the kind of generator.
_NOT_IN_GENERATORS = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
# Statements that are complete before the next one begins.
_SIMPLE_STATEMENTS = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)
# Methods of containers that add an element.
_STORING = frozenset({"append", "add", "insert", "appendleft", "setdefault"})
# List methods that add the elements of another list.
_EXTENDING = frozenset({"extend", "extendleft"})
# Nodes that evaluate all their operands, once.
_EVALUATING = (
    *FORMATTED, ast.FormattedValue, ast.Call, ast.keyword, ast.Attribute, ast.Tuple, ast.List, ast.Dict, ast.BinOp,
)  # fmt: skip


class Place(Enum):
    """The ways to insert a proxy."""

    LINE = "in a line of its own after the statement, or at the top of the loop"
    INLINE = "around the expression"
    RETURNED = "by the caller, to whom the object is returned"
    DISCARDED = "not at all: the object is used once and dropped"


@dataclass(frozen=True)
class Placement:
    """Where the proxy of one object goes.

    Attributes:
        place: the way to insert it.
        statement: the statement that binds or contains the object.
        expression: the whole expression that gives the object, with its method chain.
        target: for lines, the target that the statement binds it to.
        text: the holder of the object, as users read it.
        name: the object's name in the trace.
        can_inline: whether a proxy around `expression` is equivalent to a line.
        is_each: whether `expression` gives several objects one by one, as `map(Net, sizes)` does.
        is_argument: whether `expression` is the argument of a call that is not known to return or store it.
        part: the part of `target` that it is, as a suffix such as `.policy`.
    """

    place: Place
    statement: ast.stmt
    expression: ast.expr
    target: ast.expr | None
    text: str
    name: str
    can_inline: bool = True
    is_each: bool = False
    is_argument: bool = False
    part: str = ""

    @property
    def group(self) -> tuple[int, str]:
        """Equal for objects that share one proxy call."""
        held = self.statement if self.place is Place.LINE else self.expression
        return id(held), self.text if self.place is Place.LINE else ""


class _Climb(NamedTuple):
    unit: Unit
    facts: Facts
    hierarchy: Hierarchy
    is_fresh: Callable[[ast.expr], bool]


def place(
    unit: Unit,
    facts: Facts,
    hierarchy: Hierarchy,
    node: ast.expr,
    path: tuple[int, ...],
    *,
    is_fresh: Callable[[ast.expr], bool],
    is_coroutine: bool,
) -> Placement | None:
    """The placement of the proxy for the object that `node` makes.

    Args:
        unit: the file that contains it.
        facts: give the effects of the surrounding calls.
        hierarchy: gives the parameter names of called functions.
        node: the expression that makes the object.
        path: for a call that gives a tuple, the position of the element.
        is_fresh: whether an expression makes an object that this proxy may wrap as well, if they share a place.
        is_coroutine: whether `node` gives only coroutines.

    Returns:
        The placement; None for an element of a tuple that is not unpacked, and for the result of a coroutine.
    """
    climb = _Climb(unit, facts, hierarchy, is_fresh)
    expression = _whole_expression(climb, node)
    if is_coroutine and expression is node:
        return None
    if path:
        return _place_element(climb, expression, path)
    return _place_whole(climb, expression)


def _whole_expression(climb: _Climb, node: ast.expr) -> ast.expr:
    """The largest expression that gives the same object, by `.to()` chains, `await`, and `a() if c else b()`."""
    while True:
        above = _same_object_above(climb, node)
        if above is None:
            return node
        node = above


def _same_object_above(climb: _Climb, node: ast.expr) -> ast.expr | None:
    parents = climb.unit.parents
    parent = parents.get(node)
    if isinstance(parent, ast.Attribute) and parent.attr in IDENTITY_METHODS:
        call = parents.get(parent)
        return call if isinstance(call, ast.Call) and call.func is parent else None
    if isinstance(parent, ast.Await):
        return parent
    if isinstance(parent, ast.Call) and node in parent.args:
        effects = climb.facts.call_kinds.get(id(parent), frozenset())
        return parent if effects & {Effect.IDENTITY.name, Effect.REPLACES.name, Effect.PROXIES.name} else None
    if isinstance(parent, (ast.IfExp, ast.BoolOp)) and getattr(parent, "test", None) is not node:
        return parent if all(_is_fresh_or_none(climb, leaf) for leaf in _leaves(parent)) else None
    return None


def _leaves(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.IfExp):
        return [*_leaves(node.body), *_leaves(node.orelse)]
    if isinstance(node, ast.BoolOp):
        return [leaf for operand in node.values for leaf in _leaves(operand)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in IDENTITY_METHODS:
        return _leaves(node.func.value)
    return [node]


def _is_fresh_or_none(climb: _Climb, leaf: ast.expr) -> bool:
    return (isinstance(leaf, ast.Constant) and leaf.value is None) or climb.is_fresh(leaf)


def _place_element(climb: _Climb, expression: ast.expr, path: tuple[int, ...]) -> Placement | None:
    statement = climb.unit.parents.get(expression)
    if isinstance(statement, ast.Return) and len(path) == 1:
        return Placement(Place.RETURNED, statement, expression, None, f"return[{path[0]}]", "")
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or len(path) != 1:
        return None
    target = statement.targets[0]
    if not isinstance(target, (ast.Tuple, ast.List)) or any(isinstance(each, ast.Starred) for each in target.elts):
        return None
    if path[0] >= len(target.elts) or not _can_store_again(climb, target.elts[path[0]]):
        return None
    element = target.elts[path[0]]
    return Placement(Place.LINE, statement, expression, element, text_of(element), name_of(element), can_inline=False)


def _place_whole(climb: _Climb, expression: ast.expr) -> Placement:
    parent = climb.unit.parents[expression]
    statement = statement_of(climb.unit, expression)
    inline = Placement(Place.INLINE, statement, expression, None, "", "")
    if _is_in_fstring(climb.unit, expression):
        return _place_in_fstring(climb, replace(inline, can_inline=False), parent)
    if id(expression) in climb.facts.repeating:
        return _place_each(climb, inline)
    if isinstance(parent, (ast.Assign, ast.AnnAssign)):
        return _place_assigned(climb, inline, parent.targets if isinstance(parent, ast.Assign) else [parent.target])
    if isinstance(parent, ast.NamedExpr):
        return _named(inline, parent.target.id, parent.target.id)
    if isinstance(parent, ast.For) and expression is parent.target:
        return _place_met(inline, parent)
    if isinstance(parent, (ast.Return, ast.Lambda)):
        text = "return" if isinstance(parent, ast.Return) else "lambda"
        return replace(inline, place=Place.RETURNED, text=text)
    if isinstance(parent, ast.arguments):
        name = _parameter_with_default(parent, expression)
        return _named(inline, name, name)
    if isinstance(parent, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
        return _place_in_display(climb, inline, parent)
    if isinstance(parent, (ast.Call, ast.keyword)):
        return _place_argument(climb, inline, parent)
    return _place_elsewhere(climb, inline, parent)


def _place_each(climb: _Climb, inline: Placement) -> Placement:
    """A proxy around an iterator, for each object that it makes, if it may occur in a generator expression."""
    if any(isinstance(node, _NOT_IN_GENERATORS) for node in ast.walk(inline.expression)):
        return _discarded(inline)
    holder = _holder(climb, inline.expression)
    return replace(_named(inline, f"{holder or text_of(inline.expression)}[*]", _trace_name(holder)), is_each=True)


def _place_met(inline: Placement, loop: ast.For) -> Placement:
    """A proxy for each object that a loop visits: in a line at the top of its body, or around the iterable."""
    if any(isinstance(node, _NOT_IN_GENERATORS) for node in ast.walk(loop.iter)):
        return _discarded(inline)
    named = _named(inline, text_of(loop.target), name_of(loop.target))
    return replace(named, place=Place.LINE, expression=loop.iter, target=loop.target, is_each=True)


def _is_in_fstring(unit: Unit, node: ast.AST) -> bool:
    """Whether an expression is in an f-string, where Python before 3.12 reports no reliable column."""
    return any(isinstance(each, FORMATTED) for each in (node, *unit.enclosing(node)))


def _place_in_fstring(climb: _Climb, inline: Placement, parent: ast.AST) -> Placement:
    """A line after the statement, for an object bound by `:=` in an f-string that neither calls nor passes it on."""
    if not isinstance(parent, ast.NamedExpr) or not isinstance(inline.statement, _SIMPLE_STATEMENTS):
        return _discarded(inline)
    target = parent.target
    mentions = [node for node in walk(inline.statement) if isinstance(node, ast.Name) and node.id == target.id]
    if mentions != [target] or not _is_only_read(climb.unit, parent) or not _can_store_again(climb, target):
        return _discarded(inline)
    return replace(inline, place=Place.LINE, target=target, text=target.id, name=target.id)


def _is_only_read(unit: Unit, node: ast.expr) -> bool:
    """Whether a statement always evaluates an expression and only formats it or reads its attributes."""
    above = unit.parents[node]
    is_called = isinstance(unit.parents[above], ast.Call)
    if isinstance(above, ast.Attribute) and (above.attr in HARMLESS_METHODS or not is_called):
        node, above = above, unit.parents[above]
    elif not isinstance(above, ast.FormattedValue):
        return False
    while isinstance(above, _EVALUATING) or _is_gone_over(unit, node):
        node = above if isinstance(above, _EVALUATING) else unit.parents[above]  # type: ignore[assignment]
        above = unit.parents[node]
    return isinstance(above, ast.stmt)


def _is_gone_over(unit: Unit, node: ast.AST) -> bool:
    """Whether it is the first iterable of a comprehension, which is evaluated outside of it."""
    generator = unit.parents[node]
    return (
        isinstance(generator, ast.comprehension)
        and node is generator.iter
        and generator is unit.parents[generator].generators[0]  # type: ignore[attr-defined]
    )


def _place_elsewhere(climb: _Climb, inline: Placement, parent: ast.AST) -> Placement:
    if isinstance(parent, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
        holder = _holder(climb, parent)
        return _named(inline, f"{holder or '[...]'}[*]", _trace_name(holder))
    if isinstance(parent, ast.withitem) and parent.optional_vars is not None:
        return _named(inline, text_of(parent.optional_vars), name_of(parent.optional_vars))
    if isinstance(parent, (ast.IfExp, ast.BoolOp)):
        above: ast.AST = parent
        while isinstance(above, (ast.IfExp, ast.BoolOp)):
            above = climb.unit.parents[above]
        holder = _holder(climb, parent) if isinstance(above, ast.stmt) else ""
        return _named(inline, holder or "expression", _trace_name(holder))
    if isinstance(parent, ast.Match):
        names = [case.pattern.name for case in parent.cases if isinstance(case.pattern, ast.MatchAs)]
        name = next((each for each in names if each is not None), "")
        return _named(inline, name or "match", name)
    if isinstance(parent, (ast.Yield, ast.Starred, ast.withitem, ast.For, ast.comprehension)):
        return _named(inline, type(parent).__name__.lower(), "")
    return _discarded(inline)


def _discarded(inline: Placement) -> Placement:
    return replace(inline, place=Place.DISCARDED, text=text_of(inline.expression))


def _place_assigned(climb: _Climb, inline: Placement, targets: list[ast.expr]) -> Placement:
    target = next((each for each in targets if _can_store_again(climb, each)), None)
    if target is not None:
        return replace(inline, place=Place.LINE, target=target, text=text_of(target), name=name_of(target))
    return _named(inline, text_of(targets[0]), name_of(targets[0]))


def _place_in_display(
    climb: _Climb, inline: Placement, display: ast.Tuple | ast.List | ast.Set | ast.Dict
) -> Placement:
    position = climb.facts.elements_of(display).positions.get(inline.expression)
    if position is None:
        return _named(inline, "key", "")
    above = climb.unit.parents[display]
    if isinstance(above, ast.Return) and isinstance(display, ast.Tuple):
        return replace(inline, place=Place.RETURNED, text=f"return[{position}]")
    target = _aligned_target(climb, inline.expression)
    if target is not None:
        return _place_assigned(climb, inline, [target])
    grown = _grown_list(climb, display)
    if grown is not None:
        return _named(inline, f"{text_of(grown)}[*]", _trace_name(text_of(grown)))
    holder = _holder(climb, display)
    steps = _steps_to(climb, inline.expression, holder)
    if not holder:
        steps = steps[-1:]
    # If one index is unknown, the others alone would mislead.
    names = [step.name for step in steps]
    name = ".".join(names) if all(names) else ""
    above_name = _trace_name(holder)
    name = f"{above_name}.{name}" if above_name and name else above_name or name * name.isidentifier()
    return _named(inline, f"{holder or type(display).__name__.lower()}{''.join(step.text for step in steps)}", name)


def _grown_list(climb: _Climb, display: ast.expr) -> ast.expr | None:
    """The list to which a statement adds the elements of a display: `+=`, `[len(layers):] =`, `extend`."""
    statement = statement_of(climb.unit, display)
    call = climb.unit.parents[display]
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _EXTENDING:
        return call.func.value
    if isinstance(statement, ast.AugAssign):
        return statement.target
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    is_slice = isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice)
    return target.value if is_slice else None  # type: ignore[union-attr]


def _reads(node: ast.expr, holder: str) -> bool:
    """Whether an expression reads the variable or attribute spelled by a text."""
    named = (ast.Name, ast.Attribute, ast.Subscript)
    return bool(holder) and any(isinstance(each, named) and text_of(each) == holder for each in walk(node))


class _Step(NamedTuple):
    """One step from a container to its element.

    Attributes:
        text: the step as an index.
        name: the step as part of a name; empty if unknown.
        position: the position in a list; None if unknown or in another container.
    """

    text: str
    name: str
    position: int | None = None


_ANY = _Step("[*]", "")


def _steps_to(climb: _Climb, node: ast.AST, holder: str) -> list[_Step]:
    """The steps from what a statement binds to an expression, the outermost first.

    An element in front of what `holder` already held has no fixed position: the next such statement moves it.
    """
    steps: list[_Step] = []
    above = climb.unit.parents[node]
    while not isinstance(above, ast.stmt):
        if isinstance(above, (ast.List, ast.Tuple, ast.Set)) and not isinstance(node, ast.Starred):
            steps.append(_step_in_list(climb, above, node, holder))
        elif isinstance(above, ast.Dict):
            steps.append(_step_in_dict(above, climb.facts.elements_of(above).positions.get(node)))
        elif isinstance(above, COMPREHENSIONS):
            steps.append(_ANY)
        elif isinstance(above, ast.Starred):
            steps[-1:] = [_ANY]
        elif isinstance(above, ast.BinOp) and isinstance(above.op, ast.Add):
            is_first = node is above.left
            length = (None if _reads(above.right, holder) else 0) if is_first else _length(above.left)
            steps[-1] = _moved(steps[-1], length)
        node, above = above, climb.unit.parents[above]
    return steps[::-1]


def _step_in_list(climb: _Climb, display: ast.List | ast.Tuple | ast.Set, node: ast.AST, holder: str) -> _Step:
    positions, first_starred = climb.facts.elements_of(display)
    is_moving = first_starred is not None and (
        positions[node] > first_starred or _reads(display.elts[first_starred], holder)
    )
    return _ANY if is_moving or isinstance(display, ast.Set) else _at(positions[node])


def _step_in_dict(display: ast.Dict, position: int | None) -> _Step:
    key = None if position is None else display.keys[position]
    name = str(key.value) if isinstance(key, ast.Constant) else ""
    return _ANY if key is None else _Step(f"[{text_of(key)}]", name)


def _at(position: int) -> _Step:
    return _Step(f"[{position}]", str(position), position)


def _moved(step: _Step, length: int | None) -> _Step:
    """The step to an element after a list of some length, or of unknown length, is put in front of its own."""
    return _ANY if step.position is None or length is None else _at(step.position + length)


def _length(node: ast.expr) -> int | None:
    """The number of elements in a list or tuple; None if the text does not show it."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        lengths = _length(node.left), _length(node.right)
        return None if None in lengths else sum(filter(None, lengths))
    is_shown = isinstance(node, (ast.List, ast.Tuple)) and not any(isinstance(each, ast.Starred) for each in node.elts)
    return len(node.elts) if is_shown else None  # type: ignore[attr-defined]


def _aligned_target(climb: _Climb, expression: ast.expr) -> ast.expr | None:
    """The target of an element of a tuple, in `a, (b, *c) = x(), (y(), z())`; None if no target gets it alone."""
    display = climb.unit.parents[expression]
    if isinstance(display, ast.Assign):
        return display.targets[0] if len(display.targets) == 1 else None
    if not isinstance(display, (ast.Tuple, ast.List)):
        return None
    target = _aligned_target(climb, display)
    if not isinstance(target, (ast.Tuple, ast.List)):
        return None
    position = next(i for i, each in enumerate(display.elts) if each is expression)
    starred = next((i for i, each in enumerate(target.elts) if isinstance(each, ast.Starred)), len(target.elts))
    is_whole = starred < len(target.elts) or len(target.elts) == len(display.elts)
    is_plain = not any(isinstance(each, ast.Starred) for each in display.elts)
    return target.elts[position] if is_whole and is_plain and position < starred else None


def _place_argument(climb: _Climb, inline: Placement, parent: ast.Call | ast.keyword) -> Placement:
    call = parent if isinstance(parent, ast.Call) else climb.unit.parents[parent]
    assert isinstance(call, ast.Call)
    if call.func is inline.expression:
        return _discarded(inline)
    effects = climb.facts.call_kinds.get(id(call), frozenset())
    holder = _holder(climb, call)
    if Effect.WRAPS.name in effects:
        held_in = "_orig_mod" if ast.unparse(call.func).endswith("compile") else "module"
        return _named(inline, f"{holder or ast.unparse(call.func)}.{held_in}", _trace_name(holder))
    if effects & {Effect.READS.name, Effect.COPIES.name}:
        return _discarded(inline)
    if _is_storing(call):
        assert isinstance(call.func, ast.Attribute)
        return _named(inline, f"{ast.unparse(call.func.value)}[*]", name_of(call.func.value))
    inline = replace(inline, is_argument=True)
    if isinstance(parent, ast.keyword):
        return _named(inline, f"arg:{parent.arg or '**'}", parent.arg or "")
    position = next(i for i, each in enumerate(call.args) if each is inline.expression)
    return _named(inline, f"arg{position}", _parameter_name(climb, call, position))


def _is_storing(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _STORING


def _parameter_name(climb: _Climb, call: ast.Call, position: int) -> str:
    """The name of the parameter that an argument is passed for; empty if the callee is unknown."""
    found = climb.hierarchy.resolve(climb.unit, call.func)
    skipped = 0
    if isinstance(found, Class):
        found, skipped = climb.hierarchy.method(found, "__init__"), 1
    if not isinstance(found, Function):
        return ""
    declared = [each.arg for each in positional_parameters(found.node.args)]
    return declared[position + skipped] if position + skipped < len(declared) else ""


def _parameter_with_default(arguments: ast.arguments, default: ast.expr) -> str:
    return next(parameter.arg for parameter, each in parameters_with_defaults(arguments) if each is default)


def _named(placement: Placement, text: str, name: str) -> Placement:
    return replace(placement, text=text, name=name)


def _holder(climb: _Climb, node: ast.AST) -> str:
    """The keyword or the target to which an expression, or what contains it, is given; empty if there is none."""
    around = (each for each in climb.unit.enclosing(node) if isinstance(each, (ast.keyword, ast.stmt)))
    nearest = next(around, None)
    if isinstance(nearest, ast.keyword) and nearest.arg is not None:
        return nearest.arg
    statement = statement_of(climb.unit, node)
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
        return "" if isinstance(target, (ast.Tuple, ast.List)) else text_of(target)
    return text_of(statement.target) if isinstance(statement, ast.AnnAssign) else ""


def _trace_name(holder: str) -> str:
    name = holder.removeprefix("self.").partition("[")[0]
    return name if all(part.isidentifier() for part in name.split(".")) else ""


def place_decorated(unit: Unit, placement: Placement) -> Placement | None:
    """A placement after the class or function that the expression decorates, as its name gets the result.

    None if it decorates nothing, if another decorator gets the result, or in a class.
    """
    above = unit.parents[placement.expression]
    if not isinstance(above, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    if placement.expression not in above.decorator_list[:1] or isinstance(unit.parents[above], ast.ClassDef):
        return None
    target = ast.copy_location(ast.Name(above.name, ast.Load()), above)
    found = replace(placement, place=Place.LINE, statement=above, target=target, can_inline=False)
    return _named(found, above.name, above.name)


def name_of(target: ast.AST) -> str:
    """The trace name of an object bound to `target`: `self.net` is `net`, `nets["g"]` is `nets.g`."""
    if isinstance(target, ast.Attribute):
        above = name_of(target.value)
        return target.attr if above in {"", "self"} else f"{above}.{target.attr}"
    if isinstance(target, ast.Subscript):
        above = name_of(target.value)
        return f"{above}.{target.slice.value!s}" if isinstance(target.slice, ast.Constant) else above
    return target.id if isinstance(target, ast.Name) else ""


def _can_store_again(climb: _Climb, target: ast.expr) -> bool:
    """Whether reading `target` and storing the object back surely has no effect.

    Evaluating an index may have effects, and `__setitem__` may refuse a second store. The setter of an unknown class
    may do more than store. A class body may belong to an enumeration.
    """
    if isinstance(target, ast.Name):
        body = climb.unit.parents[statement_of(climb.unit, target)]
        return not isinstance(body, ast.ClassDef) or not (body.bases or body.keywords)
    if not isinstance(target, ast.Attribute):
        return False
    if isinstance(target.value, ast.Name) and target.value.id == "self":
        owner = climb.unit.class_around(target)
        return owner is not None and not may_notice_second_store(climb.hierarchy, owner, target.attr)
    return False
