"""Abstract evaluation of expressions."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from instrumentor.analysis.arguments import Arguments
from instrumentor.analysis.calls import Calls
from instrumentor.analysis.contents import ANY_KEY
from instrumentor.analysis.environment import constant_key, join_environments, path_of
from instrumentor.analysis.members import Members
from instrumentor.analysis.namespaces import Namespaces
from instrumentor.analysis.numbering import Numbering
from instrumentor.analysis.running import let_all_run, let_others_run, let_unseen_run
from instrumentor.analysis.scope import default_name
from instrumentor.analysis.spelling import text_of
from instrumentor.analysis.values import (
    NOTHING,
    OPAQUE,
    PLAIN,
    Atom,
    Box,
    ClassRef,
    FunctionRef,
    Instance,
    Pack,
    Value,
    bare_objects,
    derive,
    in_order,
    join,
    strip,
    value,
)
from instrumentor.resolve import catalogue
from instrumentor.source.nodes import children, parameters_with_defaults, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from instrumentor.analysis.environment import Number
    from instrumentor.analysis.scope import Scope
    from instrumentor.resolve.unit import Function

_RUNS_OTHERS = frozenset({ast.Await, ast.Yield, ast.YieldFrom})
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "__add__", ast.Sub: "__sub__", ast.Mult: "__mul__", ast.MatMult: "__matmul__", ast.Div: "__truediv__",
    ast.FloorDiv: "__floordiv__", ast.Mod: "__mod__", ast.Pow: "__pow__", ast.LShift: "__lshift__",
    ast.RShift: "__rshift__", ast.BitAnd: "__and__", ast.BitOr: "__or__", ast.BitXor: "__xor__",
}  # fmt: skip


class Stored(NamedTuple):
    """The result of a store.

    Attributes:
        receiver: the objects that the value may have been stored into.
        is_kept: whether reading the target gives the stored value back.
    """

    receiver: Value = NOTHING
    is_kept: bool = True


class Evaluator:
    """Evaluates the expressions of one scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.facts = scope.facts
        self.members = Members(scope)
        self.calls = Calls(scope, self.members)
        self.numbering = Numbering(scope, self.members)
        self.namespaces = Namespaces(scope, self.calls.object_stores, self.members)

    def evaluate(self, node: ast.expr | None) -> Value:
        """The value of `node`; its effects on objects are recorded. A missing expression is None."""
        if node is None:
            return PLAIN
        handler = self._HANDLERS.get(type(node))
        if handler is not None:
            held = handler(self, node)
            if type(node) in _RUNS_OTHERS:
                let_all_run(self.scope)
            return held
        return derive(join(self._operands(node)))

    def _operands(self, node: ast.AST) -> list[Value]:
        held: list[Value] = []
        for child in children(node):
            if isinstance(child, ast.expr):
                held.append(self.evaluate(child))
            elif isinstance(child, (ast.slice, ast.keyword)):
                held.extend(self._operands(child))
        return held

    def _evaluate_perhaps(self, node: ast.expr) -> Value:
        """The value of an expression that may not be evaluated."""
        before = self.scope.env
        self.scope.env = before.copy()
        held = self.evaluate(node)
        self.scope.env = join_environments([before, self.scope.env]) or before
        return held

    def _operand(self, node: ast.expr) -> Value:
        """The value of an expression that is used after others have been evaluated."""
        self.numbering.forget(node)
        held = self.evaluate(node)
        if held is not OPAQUE and held is not PLAIN and any(atom.is_object for atom in held):
            self.numbering.note_operand(node)
        return held

    # ---- names, attributes and elements ----

    def _attribute(self, node: ast.Attribute) -> Value:
        receiver = self.evaluate(node.value)
        path = path_of(node)
        held = self.scope.env.get(path) if path is not None else None
        if held is not None:
            return held
        return join([self.members.attribute(each, node.attr) for each in self.scope.kinds.things(receiver)])

    def _subscript(self, node: ast.Subscript) -> Value:
        receiver = self.evaluate(node.value)
        key = self.evaluate(node.slice)
        path = path_of(node)
        held = self.scope.env.get(path) if path is not None else None
        if held is not None:
            return held
        return join([self._element(node, each, key) for each in self.scope.kinds.things(receiver)])

    def _element(self, node: ast.Subscript, atom: Atom, key: Value) -> Value:
        """The value of a subscript of one object, by the method of its class or metaclass if that is the project's."""
        if isinstance(atom, (Instance, ClassRef)) and self._has_method(atom, "__getitem__"):
            return self.calls.call_method(atom, "__getitem__", node, Arguments((key,)))
        return self.members.element(node, atom)

    def store(self, target: ast.expr, held: Value, number: Number = None) -> Stored:
        """Store a value in a name, an attribute or an element."""
        if isinstance(target, ast.Name):
            self.scope.assign((target.id,), held, number)
            return Stored()
        assert isinstance(target, (ast.Attribute, ast.Subscript))
        receiver = self.scope.kinds.things(self.evaluate(target.value))
        if isinstance(target, ast.Subscript):
            self.evaluate(target.slice)
            if self.namespaces.store(target, held, self.evaluate):
                return Stored(is_kept=False)
        is_kept = self.calls.object_stores.store(target, receiver, held, number)
        return Stored(receiver, is_kept)

    # ---- calls ----

    def _call(self, node: ast.Call) -> Value:
        self.numbering.forget(node)
        function = node.func
        if isinstance(function, ast.Attribute):
            receiver = self.evaluate(function.value)
            arguments = self._arguments(node)
            self.namespaces.call(node, function, arguments, self.evaluate)
            path = path_of(function)
            held = self.scope.env.get(path) if path is not None else None
            if held is None:
                self.facts.note_evidence(receiver, function.attr)
                found = self.calls.call_methods(receiver, function.attr, node, arguments)
                let_unseen_run(self.scope)
                return found
        else:
            held = self.evaluate(function)
            arguments = self._arguments(node)
        self.facts.note_evidence(held, catalogue.CALLED)
        if bare_objects(held):
            self.facts.note_event(self.facts.called, held, self.scope.event(node))
        found = join([self.calls.apply(atom, node, arguments) for atom in in_order(held)])
        self.numbering.note_call(node, held, arguments)
        if any(atom.is_object for atom in found):
            self.facts.note_given_by_call(self.scope.key, self.scope.locate(node), found)
        let_unseen_run(self.scope)
        return found

    def _arguments(self, node: ast.Call) -> Arguments:
        positional: list[Value] = []
        starred: list[Value] = []
        rest: list[Value] = []
        keywords: dict[str, Value] = {}
        numbers: dict[int | str, Number] = {}
        for argument in node.args:
            held = self._operand(argument)
            items = self._items(held) if isinstance(argument, ast.Starred) and not starred else None
            if isinstance(argument, ast.Starred) and items is not None:
                for position, number in self._item_numbers(argument.value, len(items)).items():
                    numbers[len(positional) + position] = number
                positional.extend(items)
            elif isinstance(argument, ast.Starred):
                starred.append(held)
                rest.append(self.members.elements(held))
            elif starred:
                starred.append(held)  # the number of elements in the starred argument is unknown
                rest.append(held)
            else:
                numbers[len(positional)] = self.numbering.of_operand(argument)
                positional.append(held)
        for keyword in node.keywords:
            held = self._operand(keyword.value)
            if keyword.arg is None:
                starred.append(held)
                rest.append(self.members.elements(held))
            else:
                keywords[keyword.arg] = held
                numbers[keyword.arg] = self.numbering.of_operand(keyword.value)
        known = {key: number for key, number in numbers.items() if number is not None}
        return Arguments(tuple(positional), keywords, join(rest), tuple(starred), known)

    @staticmethod
    def _items(held: Value) -> Sequence[Value] | None:
        """The elements of a tuple; None unless the value surely is a tuple of known length."""
        packs = [atom for atom in held if isinstance(atom, Pack)]
        if not packs or len(packs) < len(held) or len({len(pack.items) for pack in packs}) > 1:
            return None
        return [join(items) for items in zip(*(pack.items for pack in packs), strict=True)]

    def _item_numbers(self, node: ast.expr, count: int) -> dict[int, Number]:
        """The object numbers of the elements of an unpacked argument, by position."""
        if not isinstance(node, ast.Name):
            return {}
        paths = {position: (node.id, f"[{position}]") for position in range(count)}
        return {position: self.scope.env.number(path) for position, path in paths.items() if self.scope.env.get(path)}

    # ---- displays ----

    def _tuple(self, node: ast.Tuple) -> Value:
        if any(isinstance(element, ast.Starred) for element in node.elts):
            return self._display(node)
        return self.scope.pack(node, [self._operand(element) for element in node.elts])

    def _display(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        box = Box(self.scope.locate(node))
        is_behind_star = False
        for position, element in enumerate(node.elts):
            held = self._operand(element)
            if isinstance(element, ast.Starred):
                held, is_behind_star = self.members.elements(held), True
            is_placed = not is_behind_star and not isinstance(node, ast.Set)
            self.facts.contents.put(box.site, repr(position) if is_placed else ANY_KEY, held)
        return value(box)

    def _dict(self, node: ast.Dict) -> Value:
        box = Box(self.scope.locate(node))
        lasting = _lasting_elements(node)
        for position, (key, element) in enumerate(zip(node.keys, node.values, strict=True)):
            if key is None:
                self._merge_dict(box, self.evaluate(element))
                continue
            self.evaluate(key)
            held = self.evaluate(element)
            self.facts.contents.put(box.site, constant_key(key) or ANY_KEY, held)
            if position in lasting:
                self._bind_element(node, key, element, held)
        return value(box)

    def _merge_dict(self, box: Box, held: Value) -> None:
        for atom in held:
            if isinstance(atom, Box) and atom.site not in self.facts.contents.scattered:
                for key, each in list(self.facts.contents.get(atom.site, {}).items()):
                    self.facts.contents.put(box.site, key, each)
            else:
                self.facts.contents.put(box.site, ANY_KEY, self.members.elements(value(atom)))

    def _bind_element(self, node: ast.Dict, key: ast.expr, element: ast.expr, held: Value) -> None:
        if any(atom.is_object for atom in held):
            statement = self.scope.statement(node)
            holder = text_of(statement.targets[0]) if isinstance(statement, ast.Assign) else "{}"
            text = f"{holder}[{text_of(key)}]"
            self.scope.bind(statement, element, text, held, source=element, number=self.numbering.of(element))

    # ---- comprehensions ----

    def _generator(self, node: ast.GeneratorExp) -> Value:
        with self.scope.putting_off():
            return self._comprehension(node)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        outer, is_apart = self.scope.env, self.scope.is_apart
        hidden = _target_names(node)
        self.scope.env, self.scope.is_apart = outer.copy(), True
        for position, generator in enumerate(node.generators):
            held = self.evaluate(generator.iter)
            if position == 0 and self.scope.class_body is not None:
                self.scope.env = self.scope.around_class.copy()  # the first iterable alone sees the class
            self._bind_target(generator.target, self.members.elements(held))
            for condition in generator.ifs:
                self.evaluate(condition)
        if isinstance(node, ast.DictComp):
            self.evaluate(node.key)
            held = self.evaluate(node.value)
        else:
            held = self.evaluate(node.elt)
        # Only names bound by `:=` survive, and only if there was an iteration.
        inner = self.scope.env
        for name in hidden:
            inner.forget((name,))
            if name in outer.names:
                inner.assign((name,), outer.names[name], outer.numbers.get((name,)))
        self.scope.env, self.scope.is_apart = join_environments([outer, inner]) or outer, is_apart
        return self.scope.box(node, held)

    def _bind_target(self, target: ast.expr, held: Value) -> None:
        """Bind a comprehension's target."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for element, item in self.members.shared_out(held, target.elts):
                self._bind_target(element, item)
        elif isinstance(target, ast.Starred):
            self._bind_target(target.value, self.scope.box(target, held))
        else:
            self.store(target, held)

    # ---- operators ----

    def _if_expression(self, node: ast.IfExp) -> Value:
        self.numbering.forget(node)
        self.evaluate(node.test)
        before = self.scope.env
        self.scope.env = before.copy()
        body, after_body = self.evaluate(node.body), self.scope.env
        self.scope.env = before.copy()
        orelse = self.evaluate(node.orelse)
        self.scope.env = join_environments([after_body, self.scope.env]) or before
        return join((body, orelse))

    def _bool_operation(self, node: ast.BoolOp) -> Value:
        first, *others = node.values
        held = self.evaluate(first)
        return join([held, *(self._evaluate_perhaps(operand) for operand in others)])

    def _binary_operation(self, node: ast.BinOp) -> Value:
        held = [self.evaluate(node.left), self.evaluate(node.right)]
        self._note_operator(held)
        if isinstance(node.op, (ast.Add, ast.Mult, ast.BitOr)):
            found = self.members.concatenation(node, held)
            if found:
                return found
        left, right = held
        made, others = self._call_operator(_OPERATORS[type(node.op)], left, right, node)
        return join((made, derive(others | right))) if others else made

    def _call_operator(self, name: str, left: Value, right: Value, node: ast.BinOp) -> tuple[Value, Value]:
        """The results of operators that the operands' classes define, and the operands that define none."""
        own = [atom for atom in in_order(left) if self._has_method(atom, name)]
        made = [self.calls.call_method(atom, name, node, Arguments((right,))) for atom in own]
        return join(made), left.difference(own)

    def _has_method(self, atom: Atom, name: str) -> bool:
        """Whether Python finds a special method of an object in the project: in its class, or in its metaclass."""
        if isinstance(atom, (Instance, ClassRef)):
            cls = self.scope.kinds.class_of(atom.key)
            if cls is not None and isinstance(atom, ClassRef):
                cls = self.scope.hierarchy.metaclass(cls)
            return cls is not None and self.scope.hierarchy.method(cls, name) is not None
        return self.scope.kinds.method_of(strip(atom), name) is not None

    def _comparison(self, node: ast.Compare) -> Value:
        held = [self.evaluate(node.left)]
        for position, operand in enumerate(node.comparators):
            held.append(self._evaluate_perhaps(operand) if position else self.evaluate(operand))
        self._note_operator(held)
        return PLAIN

    def _note_operator(self, operands: list[Value]) -> None:
        """Record that an operator may run a method of a project's class."""
        if any(isinstance(atom, Instance) for held in operands for atom in held):
            let_others_run(self.scope)

    def _named_expression(self, node: ast.NamedExpr) -> Value:
        held = self.evaluate(node.value)
        number = self.numbering.of(node.value)
        self.scope.assign((node.target.id,), held, number)
        statement = self.scope.statement(node)
        self.scope.bind(statement, node.target, node.target.id, held, source=node.value, number=number)
        return held

    def _lambda(self, node: ast.Lambda) -> Value:
        function = self.scope.unit.function_of.get(node)
        if function is None:
            return OPAQUE
        self.bind_defaults(function)
        self.facts.demand(function)
        return value(FunctionRef(function.key))

    def bind_defaults(self, function: Function) -> None:
        """Bind parameters to their defaults, which are evaluated at the definition."""
        for parameter, default in parameters_with_defaults(function.node.args):
            held = self.evaluate(default)
            key = (function.key, parameter.arg)
            # Stored like a name, so that its object number is known until the function is defined again.
            if any(atom.is_object for atom in held):
                self.scope.env.assign((default_name(function, parameter.arg),), held, self.numbering.of(default))
            self.facts.grow(self.facts.passed.defaults, key, held)
            self.scope.bind(self.scope.statement(function.node), parameter, parameter.arg, held, source=default)

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> Value:
        held = self.evaluate(node.value)
        if isinstance(node, ast.YieldFrom):
            held = self.members.elements(held)
        function = self.scope.function
        if function is not None:
            self.facts.captured.keep(held)
            self.facts.touched.note_running_unseen(function.key)  # the generator runs whenever it is resumed
            self.facts.grow(self.facts.yields, function.key, held)
            number = None if node.value is None or isinstance(node, ast.YieldFrom) else self.numbering.of(node.value)
            self.facts.note_given(self.facts.yielded_numbers, function.key, node, number)
        return OPAQUE

    def _text(self, node: ast.JoinedStr) -> Value:
        self._operands(node)
        return PLAIN

    _HANDLERS: ClassVar[dict[type[ast.AST], Callable[..., Value]]] = {
        ast.Name: lambda self, node: self.scope.lookup(node.id),
        ast.Attribute: _attribute,
        ast.Subscript: _subscript,
        ast.Call: _call,
        ast.Tuple: _tuple,
        ast.List: _display,
        ast.Set: _display,
        ast.Dict: _dict,
        ast.IfExp: _if_expression,
        ast.BoolOp: _bool_operation,
        ast.BinOp: _binary_operation,
        ast.Compare: _comparison,
        ast.NamedExpr: _named_expression,
        ast.Lambda: _lambda,
        ast.ListComp: _comprehension,
        ast.SetComp: _comprehension,
        ast.GeneratorExp: _generator,
        ast.DictComp: _comprehension,
        ast.Await: lambda self, node: self.evaluate(node.value),
        ast.Starred: lambda self, node: self.evaluate(node.value),
        ast.Yield: _yield,
        ast.YieldFrom: _yield,
        ast.Constant: lambda _self, _node: PLAIN,
        ast.JoinedStr: _text,
    }


def _target_names(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> set[str]:
    targets: Sequence[ast.expr] = [generator.target for generator in node.generators]
    names = (each for target in targets for each in walk(target) if isinstance(each, ast.Name))
    return {each.id for each in names if isinstance(each.ctx, ast.Store)}


def _lasting_elements(node: ast.Dict) -> set[int]:
    """The positions of a dict display's elements that no later element may overwrite."""
    found: set[int] = set()
    behind: set[str] = set()
    for position in reversed(range(len(node.keys))):
        key = node.keys[position]
        constant = None if key is None else constant_key(key)
        if constant not in behind:
            found.add(position)
        if constant is None:
            break  # an unknown key may be that of any earlier element
        behind.add(constant)
    return found
