"""What an expression may evaluate to."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from instrumentor.analysis.arguments import Arguments, match_parameters, returned_attribute
from instrumentor.analysis.calls import Calls
from instrumentor.analysis.certainty import Certainty
from instrumentor.analysis.environment import constant_key, is_parameter, join_environments, path_of
from instrumentor.analysis.facts import ANY_KEY
from instrumentor.analysis.handed_back import handed_back
from instrumentor.analysis.members import Members, constant_position
from instrumentor.analysis.scope import default_name
from instrumentor.analysis.spelling import text_of
from instrumentor.analysis.values import (
    OPAQUE,
    PLAIN,
    Atom,
    Box,
    ClassRef,
    FunctionRef,
    Instance,
    Named,
    Pack,
    Parameter,
    Partial,
    Value,
    derive,
    join,
    strip,
    value,
)
from instrumentor.resolve import catalogue
from instrumentor.resolve.nature import Nature
from instrumentor.source.nodes import children, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from instrumentor.analysis.environment import Number, Path
    from instrumentor.analysis.scope import Scope
    from instrumentor.resolve.units import Class, Function

_ITERATION = {Named("builtins.next"), Named("builtins.iter")}
_RUNS_OTHERS = frozenset({ast.Await, ast.Yield, ast.YieldFrom})


class Evaluator:
    """Evaluates the expressions of one scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.facts = scope.facts
        self.members = Members(scope)
        self.calls = Calls(scope, self.members)
        self.certainty = Certainty(scope)
        # The numbers of operands, which what is evaluated after them may change, and of what calls hand back.
        self._numbers: dict[int, Number] = {}
        # The numbers of what generators yield first and last, and what new instances hold, by the calls that make them.
        self._yielded: dict[int, Number] = {}
        self._initial: dict[int, dict[str, tuple[Value, Number]]] = {}
        # The numbers of what is wrapped by the calls that do nothing else.
        self._wrapped: dict[int, Number] = {}
        # The numbers of elements, by position, of the lists and tuples that expressions gave which surely have these.
        self._elements: dict[int, dict[int, Number]] = {}

    def evaluate(self, node: ast.expr | None) -> Value:
        """What `node` may be; notes on the way what it does to objects. Nothing written is None."""
        if node is None:
            return PLAIN
        handler = self._HANDLERS.get(type(node))
        if handler is not None:
            held = handler(self, node)
            if type(node) in _RUNS_OTHERS:
                self.scope.let_all_run()
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
        """What an expression gives that may as well not be evaluated."""
        before = self.scope.env
        self.scope.env = before.copy()
        held = self.evaluate(node)
        self.scope.env = join_environments([before, self.scope.env]) or before
        return held

    def _operand(self, node: ast.expr) -> Value:
        """What an expression gives after which others are evaluated before that is used."""
        self._numbers.pop(id(node), None)
        held = self.evaluate(node)
        if held is not OPAQUE and held is not PLAIN and any(atom.is_object for atom in held):
            self._numbers[id(node)] = self.number_of(node)
        return held

    def number_of_operand(self, node: ast.expr) -> Number:
        """The number of the object that an operand gave; None where it gave none, or that is not known."""
        return self._numbers.get(id(node))

    def number_of(self, node: ast.expr) -> Number:
        """The number of the object that an expression gave that was evaluated just now."""
        if id(node) in self._numbers:
            return self._numbers[id(node)]
        if isinstance(node, ast.NamedExpr):
            return self.scope.number_at((node.target.id,), node)
        if isinstance(node, ast.Constant):
            return None
        if isinstance(node, ast.Subscript) and (number := self._number_of_element(node)) is not None:
            return number
        if (first := self._first_of(node)) is not None:
            return self.scope.number_at(first, node)
        if isinstance(node, ast.IfExp):
            number = self.number_of(node.body)
            return number if self.number_of(node.orelse) == number else ("made", self.scope.locate(node))
        path = path_of(node)
        if path is not None:
            return self.scope.number_at(path, node)
        if isinstance(node, ast.Attribute) and node.attr == "module" and id(node.value) in self._wrapped:
            return self._wrapped[id(node.value)]
        function = node.func if isinstance(node, ast.Call) else None
        if isinstance(function, ast.Attribute) and function.attr in self.scope.hierarchy.knowledge.identity_methods:
            receiver = path_of(function.value)
            held = self.scope.env.get(receiver) if receiver is not None else None
            if held and all(self._gives_itself(strip(atom), function.attr) for atom in held):
                return self.number_of(function.value)
        return ("made", self.scope.locate(node))

    def _number_of_element(self, node: ast.Subscript) -> Number:
        """The number of an element, where it is known which of the elements of which object it is."""
        if isinstance(node.value, (ast.List, ast.Tuple)):
            element = displayed_element(node.value, node.slice)
            return ("made", self.scope.locate(node)) if element is None else self._numbers.get(id(element))
        position = constant_position(node.slice)
        return None if position is None else self.elements_of(node.value).get(position)

    def elements_of(self, node: ast.expr) -> Mapping[int, Number]:
        """The numbers of elements that a list or tuple surely has which an expression gave that was evaluated just now.

        By position, the last one's also as -1.
        """
        if isinstance(node, ast.Name):
            paths = {position: (node.id, f"[{position}]") for position in (0, -1)}
            found = {each: self.scope.env.number(path) for each, path in paths.items() if self.scope.env.get(path)}
            return {position: number for position, number in found.items() if number is not None}
        return self._elements.get(id(node), {})

    def _is_sequence(self, node: ast.expr) -> bool:
        """Whether an expression gave a list or tuple some of whose elements are known: of others the last never is."""
        return -1 in self.elements_of(node)

    def _first_of(self, node: ast.expr) -> Path | None:
        """The path of the first element of a list that surely has one, where `next` asks an iterator over it for it."""
        if not isinstance(node, ast.Call) or not node.args or not _is_builtin_call(node, "next"):
            return None
        iterator = node.args[0]
        if not isinstance(iterator, ast.Call) or len(iterator.args) != 1 or not _is_builtin_call(iterator, "iter"):
            return None
        called = {*self.evaluate(node.func), *self.evaluate(iterator.func)}
        name = iterator.args[0]
        is_known = isinstance(name, ast.Name) and self._is_sequence(name) and 0 in self.elements_of(name)
        return (name.id, "[0]") if is_known and called == _ITERATION else None  # type: ignore[attr-defined]

    def _gives_itself(self, atom: Atom, method: str) -> bool:
        """Whether an identity method of an object is that of nn.Module: for a parameter, whatever callers may pass."""
        if isinstance(atom, Parameter) and not self.scope.is_self(atom):
            passed = self.facts.passed_for(atom)
            return all(not isinstance(each, Parameter) and self._gives_itself(strip(each), method) for each in passed)
        return self.scope.is_module(atom) and self.scope.method_of(atom, method) is None

    # ---- names, attributes and elements ----

    def _name(self, node: ast.Name) -> Value:
        return self.scope.lookup(node.id)

    def _attribute(self, node: ast.Attribute) -> Value:
        receiver = self.evaluate(node.value)
        path = path_of(node)
        held = self.scope.env.get(path) if path is not None else None
        if held is not None:
            return held
        return join(
            [self.members.attribute(each, node.attr) for atom in receiver for each in self.scope.stands_for(atom)]
        )

    def _subscript(self, node: ast.Subscript) -> Value:
        receiver = self.evaluate(node.value)
        self.evaluate(node.slice)
        path = path_of(node)
        held = self.scope.env.get(path) if path is not None else None
        if held is not None:
            return held
        return join([self.members.element(node, each) for atom in receiver for each in self.scope.stands_for(atom)])

    # ---- calls ----

    def _call(self, node: ast.Call) -> Value:
        for kept in (self._numbers, self._yielded, self._initial, self._wrapped):
            kept.pop(id(node), None)
        function = node.func
        if isinstance(function, ast.Attribute):
            receiver = self.evaluate(function.value)
            arguments = self._arguments(node)
            path = path_of(function)
            held = self.scope.env.get(path) if path is not None else None
            if held is None:
                self.facts.note_evidence(receiver, function.attr)
                self._keep_wrapped(node, receiver, arguments)
                found = join([self.calls.call_method(atom, function.attr, node, arguments) for atom in receiver])
                self.scope.let_unseen_run()
                return found
        else:
            held = self.evaluate(function)
            arguments = self._arguments(node)
        self.facts.note_evidence(held, catalogue.CALLED)
        found = join([self.calls.apply(atom, node, arguments) for atom in held])
        self._keep_wrapped(node, held, arguments)
        self._keep_number(node, held, arguments)
        if any(atom.is_object for atom in found):
            self.facts.note_given_by_call(self.scope.key, self.scope.locate(node), found)
        self.scope.let_unseen_run()
        return found

    def _keep_number(self, node: ast.Call, called: Value, arguments: Arguments) -> None:
        """Remember which of its arguments a call hands back, where a function of the project does nothing else."""
        atom = next(iter(called)) if len(called) == 1 else None
        if isinstance(atom, Partial) and isinstance(node.func, ast.Call) and atom.site == self.scope.locate(node.func):
            arguments = self._behind_bound(atom, node.func, arguments)
            atom = atom.callee
        self._keep_initial(node, atom, arguments)
        function = self.scope.function_at(atom.key) if isinstance(atom, FunctionRef) else None
        self.facts.note_sole_callee(self.scope.key, ("made", self.scope.locate(node)), function)
        if function is None:
            return
        given = self.scope.numbers_given(function, None, arguments)

        def given_as(numbers: Iterable[Number]) -> Number:
            """The number of the object that a call gives of which the function says that it is one of its own."""
            found = {
                given.get(number[1]) or self.facts.number_passed(function.key, number[1], node, self.scope.key)
                if is_parameter(number)
                else None
                for number in set(numbers)
            }
            return found.pop() if len(found) == 1 else None

        if function.key in self.facts.remembering and function.key not in self.facts.called_unseen:
            remembered = self._numbers[id(node)] = ("made", self.scope.locate(function.node))
            self.facts.note_sole_callee(self.scope.key, remembered, function)
            return
        number = given_as(self.facts.returned_numbers.get(function.key, {}).values())
        if number is None and (key := handed_back(function, arguments, self.certainty.is_object)) is not None:
            number = arguments.numbers.get(key)
        if number is not None and function.key not in self.facts.yields:
            self._numbers[id(node)] = number
        yielded = given_as(self.facts.yielded_numbers.get(function.key, {}).values())
        if yielded is not None:
            self._yielded[id(node)] = yielded

    def _keep_wrapped(self, node: ast.Call, called: Value, arguments: Arguments) -> None:
        """Remember which object a wrapper is made for; `called` is the wrapper's class, or what has it as a member."""
        if 0 not in arguments.numbers:
            return
        names = {atom.name if isinstance(atom, Named) else None for atom in called}
        if isinstance(node.func, ast.Attribute):
            names = {None if name is None else f"{name}.{node.func.attr}" for name in names}
        if names and all(name is not None and catalogue.is_bare_wrapper(name) for name in names):
            self._wrapped[id(node)] = arguments.numbers[0]

    def _keep_initial(self, node: ast.Call, made: Atom | None, arguments: Arguments) -> None:
        """Remember what the attributes of a new instance hold, as far as its class leaves there what it is passed."""
        cls = self.scope.class_of(made.key) if isinstance(made, ClassRef) else None
        if cls is None or arguments.rest or not self._is_transparent(cls):
            return
        initialiser = self.scope.hierarchy.method(cls, "__init__")
        kept = None if initialiser is None else self.facts.initial.get(initialiser.key)
        if initialiser is None or not kept:
            return
        receiver = value(Instance(cls.key))
        numbers = self.scope.numbers_given(initialiser, receiver, arguments)
        held = match_parameters(initialiser, receiver, arguments)
        self._initial[id(node)] = {
            attribute: (held[name], numbers[name])
            for attribute, name in kept.items()
            if name in held and numbers.get(name) is not None
        }

    def _is_transparent(self, cls: Class) -> bool:
        """Whether an instance of a class is no module and gives back what was stored into its attributes."""
        hierarchy = self.scope.hierarchy
        bases = hierarchy.library_bases(cls)
        return (
            hierarchy.nature(cls) is Nature.NOT_MODULE
            and all(base is not None and base.startswith("builtins.object") for base in bases)
            and not any(hierarchy.method(cls, name) for name in ("__new__", "__setattr__", "__getattribute__"))
            and not any(each.node.decorator_list or each.node.keywords for each in hierarchy.ancestors(cls))
        )

    def initial_of(self, node: ast.expr) -> Mapping[str, tuple[Value, Number]]:
        """What the attributes hold of the instance that an expression has just made, as far as that is known."""
        return self._initial.get(id(node), {})

    def entered(self, node: ast.expr, held: Value) -> tuple[Value, Number] | None:
        """What `with` binds for a context that is made by a call, and which object; None where that is not known.

        Args:
            node: the context, evaluated just now.
            held: what it gave.
        """
        if id(node) in self._yielded:
            return self.members.elements(held), self._yielded[id(node)]
        atom = next(iter(held)) if len(held) == 1 else None
        cls = self.scope.class_of(atom.key) if isinstance(atom, Instance) else None
        enter = None if cls is None else self.scope.hierarchy.method(cls, "__enter__")
        return None if enter is None else self.initial_of(node).get(f".{returned_attribute(enter)}")

    def _behind_bound(self, partial: Partial, node: ast.Call, arguments: Arguments) -> Arguments:
        """What a partial application that is called where it is made passes, with the numbers of what it has bound."""
        given = arguments.behind(self.facts.bound_arguments[partial.site])
        if given.rest:
            return given
        numbers: dict[int | str, Number] = {
            **dict(enumerate(map(self.number_of_operand, node.args[1:]))),
            **{each.arg: self.number_of_operand(each.value) for each in node.keywords if each.arg is not None},
        }
        for key, number in arguments.numbers.items():
            numbers[key + len(node.args) - 1 if isinstance(key, int) else key] = number
        return replace(given, numbers={key: number for key, number in numbers.items() if number is not None})

    def _arguments(self, node: ast.Call) -> Arguments:
        positional: list[Value] = []
        starred: list[Value] = []
        rest: list[Value] = []
        keywords: dict[str, Value] = {}
        numbers: dict[int | str, Number] = {}
        for argument in node.args:
            held = self._operand(argument)
            if isinstance(argument, ast.Starred):
                if not starred and self._is_sequence(argument.value) and 0 in self.elements_of(argument.value):
                    numbers[len(positional)] = self.elements_of(argument.value)[0]
                starred.append(held)
                rest.append(self.members.elements(held))
            elif starred:
                starred.append(held)  # how many places the starred argument takes is not known
                rest.append(held)
            else:
                if id(argument) in self._numbers:
                    numbers[len(positional)] = self._numbers[id(argument)]
                positional.append(held)
        for keyword in node.keywords:
            held = self._operand(keyword.value)
            if keyword.arg is None:
                starred.append(held)
                rest.append(self.members.elements(held))
            else:
                keywords[keyword.arg] = held
                if id(keyword.value) in self._numbers:
                    numbers[keyword.arg] = self._numbers[id(keyword.value)]
        return Arguments(tuple(positional), keywords, join(rest), tuple(starred), numbers)

    # ---- displays ----

    def _tuple(self, node: ast.Tuple) -> Value:
        if any(isinstance(element, ast.Starred) for element in node.elts):
            return self._display(node)
        return self.scope.pack(node, [self._operand(element) for element in node.elts])

    def _list(self, node: ast.List) -> Value:
        held = self._display(node)
        self._elements.pop(id(node), None)
        # Of a list that is changed somewhere it is not known for how long what it has is where it was.
        is_lasting = not any(isinstance(atom, Box) and atom.site in self.facts.scattered for atom in held)
        if node.elts and is_lasting and not any(isinstance(each, ast.Starred) for each in node.elts):
            numbers = [self.number_of_operand(each) for each in node.elts]
            found = {**dict(enumerate(numbers)), -1: numbers[-1]}
            self._elements[id(node)] = {position: each for position, each in found.items() if each is not None}
        return held

    def _display(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        box = Box(self.scope.locate(node))
        is_behind_star = False
        for position, element in enumerate(node.elts):
            held = self._operand(element)
            if isinstance(element, ast.Starred):
                held, is_behind_star = self.members.elements(held), True
            self.facts.put(box.site, ANY_KEY if is_behind_star else repr(position), held)
        return value(box)

    def _dict(self, node: ast.Dict) -> Value:
        box = Box(self.scope.locate(node))
        for key, element in zip(node.keys, node.values, strict=True):
            if key is None:
                self._merge_dict(box, self.evaluate(element))
                continue
            self.evaluate(key)
            held = self.evaluate(element)
            self.facts.put(box.site, constant_key(key) or ANY_KEY, held)
            self._bind_element(node, key, element, held)
        return value(box)

    def _merge_dict(self, box: Box, held: Value) -> None:
        for atom in held:
            if isinstance(atom, Box) and atom.site not in self.facts.scattered:
                for key, each in list(self.facts.contents.get(atom.site, {}).items()):
                    self.facts.put(box.site, key, each)
            else:
                self.facts.put(box.site, ANY_KEY, self.members.elements(value(atom)))

    def _bind_element(self, node: ast.Dict, key: ast.expr, element: ast.expr, held: Value) -> None:
        if any(atom.is_object for atom in held):
            statement = self.scope.statement(node)
            holder = text_of(statement.targets[0]) if isinstance(statement, ast.Assign) else "{}"
            text = f"{holder}[{text_of(key)}]"
            self.scope.bind(statement, element, text, held, source=element, number=self.number_of(element))

    # ---- comprehensions ----

    def _generator(self, node: ast.GeneratorExp) -> Value:
        with self.scope.putting_off():
            return self._comprehension(node)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Value:
        outer, is_apart = self.scope.env, self.scope.is_apart
        hidden = _target_names(node)
        self.scope.env, self.scope.is_apart = outer.copy(), True
        for generator in node.generators:
            self._bind_names(generator.target, self.members.elements(self.evaluate(generator.iter)))
            for condition in generator.ifs:
                self.evaluate(condition)
        if isinstance(node, ast.DictComp):
            self.evaluate(node.key)
            held = self.evaluate(node.value)
        else:
            held = self.evaluate(node.elt)
        # Only what `:=` stores stays, and that only if there was a round.
        inner = self.scope.env
        for name in hidden:
            inner.forget((name,))
            if name in outer.names:
                inner.assign((name,), outer.names[name], outer.numbers.get((name,)))
        self.scope.env, self.scope.is_apart = join_environments([outer, inner]) or outer, is_apart
        return self.scope.box(node, held)

    def _bind_names(self, target: ast.expr, held: Value) -> None:
        """Let the names in a comprehension's target hold a value."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for position, element in enumerate(target.elts):
                self._bind_names(element, self.members.unpacked(held, position, len(target.elts)))
        elif isinstance(target, ast.Starred):
            self._bind_names(target.value, self.scope.box(target, self.members.elements(held)))
        elif isinstance(target, ast.Name):
            self.scope.assign((target.id,), held)
        else:
            self._operands(target)

    # ---- operators ----

    def _if_expression(self, node: ast.IfExp) -> Value:
        self.evaluate(node.test)
        before = self.scope.env
        self.scope.env = before.copy()
        body, after_body = self.evaluate(node.body), self.scope.env
        self.scope.env = before.copy()
        orelse = self.evaluate(node.orelse)
        self.scope.env = join_environments([after_body, self.scope.env]) or before
        is_none = self.certainty.is_test_for_none(node.test)
        if is_none is None:
            self._elements.pop(id(node), None)
            return join((body, orelse))
        self._elements[id(node)] = dict(self.elements_of(node.body if is_none else node.orelse))
        return body if is_none else orelse

    def _bool_operation(self, node: ast.BoolOp) -> Value:
        first, *others = node.values
        held = self._operand(first)
        # What is always true is what `or` gives.
        self._numbers[id(node)] = ("made", self.scope.locate(node))
        self._elements.pop(id(node), None)
        if isinstance(node.op, ast.Or):
            path = self._first_of(first)
            certain = held if path is None else self.scope.env.get(path)
            if id(first) in self._numbers and certain and self.certainty.is_true(certain):
                self._numbers[id(node)] = self._numbers[id(first)]
            if all(isinstance(atom, (Box, Pack)) for atom in held):
                self._elements[id(node)] = dict(self.elements_of(first))
        return join([held, *(self._evaluate_perhaps(operand) for operand in others)])

    def _binary_operation(self, node: ast.BinOp) -> Value:
        held = [self.evaluate(node.left), self.evaluate(node.right)]
        self._note_operator(held)
        if isinstance(node.op, (ast.Add, ast.Mult, ast.BitOr)):
            found = self.members.concatenation(node, held)
            if found:
                return found
        return derive(join(held))

    def _comparison(self, node: ast.Compare) -> Value:
        held = [self.evaluate(node.left)]
        for position, operand in enumerate(node.comparators):
            held.append(self._evaluate_perhaps(operand) if position else self.evaluate(operand))
        self._note_operator(held)
        return PLAIN

    def _note_operator(self, operands: list[Value]) -> None:
        """An operator runs what a project's class says it does."""
        if any(isinstance(atom, Instance) for held in operands for atom in held):
            self.scope.let_others_run()

    def _named_expression(self, node: ast.NamedExpr) -> Value:
        held = self.evaluate(node.value)
        number = self.number_of(node.value)
        self.scope.assign((node.target.id,), held, number)
        statement = self.scope.statement(node)
        self.scope.bind(statement, node.target, node.target.id, held, source=node.value, number=number)
        return held

    def _lambda(self, node: ast.Lambda) -> Value:
        function = self.scope.unit.function_of.get(node)
        if function is None:
            return OPAQUE
        self.bind_defaults(function)
        self.scope.demand(function)
        return value(FunctionRef(function.key))

    def bind_defaults(self, function: Function) -> None:
        """Let parameters hold their defaults, which are evaluated where the function is defined."""
        declared = function.node.args
        positional = [*declared.posonlyargs, *declared.args]
        with_default = [
            *zip(positional[len(positional) - len(declared.defaults) :], declared.defaults, strict=True),
            *zip(declared.kwonlyargs, declared.kw_defaults, strict=True),
        ]
        for parameter, default in with_default:
            if default is None:
                continue
            held = self.evaluate(default)
            key = (function.key, parameter.arg)
            # Kept like what a name holds, so that it is known which object it is until the function is defined anew.
            if any(atom.is_object for atom in held):
                self.scope.env.assign((default_name(function, parameter.arg),), held, self.number_of(default))
            self.facts.grow(self.facts.defaults, key, held)
            self.scope.bind(self.scope.statement(function.node), parameter, parameter.arg, held, source=default)

    def _inner(self, node: ast.Await | ast.Starred) -> Value:
        return self.evaluate(node.value)

    def _yield(self, node: ast.Yield) -> Value:
        self._note_yield(node, self.evaluate(node.value))
        return OPAQUE

    def _yield_from(self, node: ast.YieldFrom) -> Value:
        self._note_yield(node, self.members.elements(self.evaluate(node.value)))
        return OPAQUE

    def _note_yield(self, node: ast.Yield | ast.YieldFrom, held: Value) -> None:
        function = self.scope.function
        if function is not None:
            self.facts.captured.keep(held)
            self.facts.touched.note_running_unseen(function.key)  # whenever someone asks for more
            self.facts.grow(self.facts.yields, function.key, held)
            number = None if node.value is None or isinstance(node, ast.YieldFrom) else self.number_of(node.value)
            self.facts.note_given(self.facts.yielded_numbers, function.key, node, number)

    def _constant(self, _node: ast.Constant) -> Value:
        return PLAIN

    def _text(self, node: ast.JoinedStr) -> Value:
        self._operands(node)
        return PLAIN

    _HANDLERS: ClassVar[dict[type[ast.AST], Callable[..., Value]]] = {
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.Subscript: _subscript,
        ast.Call: _call,
        ast.Tuple: _tuple,
        ast.List: _list,
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
        ast.Await: _inner,
        ast.Starred: _inner,
        ast.Yield: _yield,
        ast.YieldFrom: _yield_from,
        ast.Constant: _constant,
        ast.JoinedStr: _text,
    }


def _is_builtin_call(node: ast.Call, name: str) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == name


def displayed_element(display: ast.List | ast.Tuple, index: ast.expr) -> ast.expr | None:
    """The element of a display that a constant index finds; None where that is not sure."""
    position = constant_position(index)
    if position is None or any(isinstance(each, ast.Starred) for each in display.elts):
        return None
    return display.elts[position] if -len(display.elts) <= position < len(display.elts) else None


def _target_names(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> set[str]:
    targets: Sequence[ast.expr] = [generator.target for generator in node.generators]
    return {each.id for target in targets for each in walk(target) if isinstance(each, ast.Name)}
