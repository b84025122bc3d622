"""The forward pass over one function or file: branches are joined, loops are iterated to a fixpoint."""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from instrumentor.analysis.arguments import Arguments, decorator_names, is_dispatching
from instrumentor.analysis.contexts import Contexts
from instrumentor.analysis.declarations import note_declared, note_declared_parameters
from instrumentor.analysis.dropped import note_left_behind
from instrumentor.analysis.environment import (
    BEHIND,
    LAST,
    PARAMETER,
    Environment,
    join_environments,
    leave_loop,
)
from instrumentor.analysis.expressions import Evaluator
from instrumentor.analysis.outside import names_bound_in
from instrumentor.analysis.parameters import note_initial, parameters_of
from instrumentor.analysis.remembering import is_remembering
from instrumentor.analysis.running import let_unseen_run
from instrumentor.analysis.scope import CREATED, Scope
from instrumentor.analysis.stores import Stores
from instrumentor.analysis.unseen_methods import is_special
from instrumentor.analysis.values import (
    OPAQUE,
    PLAIN,
    Box,
    ClassRef,
    FunctionRef,
    Instance,
    Made,
    Method,
    Named,
    Pack,
    Partial,
    Value,
    in_order,
    join,
    value,
)
from instrumentor.resolve.catalogue import is_transparent_decorator
from instrumentor.resolve.unit import is_main_guard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from instrumentor.analysis.facts import Facts
    from instrumentor.analysis.replay import Records
    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.unit import Class, Function, Unit


# Loops usually settle after two or three rounds. After more rounds than this, their object numbers are given up.
_MAX_NUMBERED_ROUNDS = 8
# In `finally` blocks nested deeper than this, the ways to reach them are merged.
_MAX_FINAL_BLOCKS = 2
# Functions decorated with these may call other functions in their place.
_DISPATCHERS = value(Named("functools.singledispatch"))
# Python calls this method of a class whenever a subclass is defined.
_SUBCLASS_HOOK = "__init_subclass__"


class Pass:
    """One visit of one scope.

    Args:
        facts: the tables to add to.
        hierarchy: the classes.
        unit: the file.
        function: the function; None for the top level of the file.
        records: the effects of statements in earlier visits.
        begin: visits a scope at once, if it was never visited, when this visit reaches it.
    """

    def __init__(
        self,
        facts: Facts,
        hierarchy: Hierarchy,
        unit: Unit,
        function: Function | None,
        records: Records,
        begin: Callable[[Unit, Function | None], None] = lambda _unit, _function: None,
    ) -> None:
        self.facts = facts
        self.unit = unit
        self.function = function
        self._records = records
        self.scope = Scope(facts, hierarchy, unit, function, Environment(), begin)
        self.evaluator = Evaluator(self.scope)
        self.stores = Stores(self.evaluator)
        self._contexts = Contexts(self.evaluator)
        self._breaks: list[list[Environment]] = []
        self._continues: list[list[Environment]] = []
        self._raises: list[list[Environment]] = []
        # The number of nested `finally` blocks being visited.
        self._final_blocks = 0

    def run(self) -> None:
        """Visit the whole scope."""
        if self.function is None:
            self._block(self.unit.tree.body, Environment())
        else:
            self._run_function(self.function)
        while self.facts.let_go:  # giving them up may widen other values
            gone = frozenset(self.facts.let_go)
            self.facts.let_go.clear()
            self.evaluator.calls.effects.give_up(gone)

    def _run_function(self, function: Function) -> None:
        env = self.scope.env
        for name, held in parameters_of(self.scope, function).items():
            self.scope.assign((name,), held, (PARAMETER, name))
        note_declared_parameters(self.scope, function)
        self.scope.enter(function)
        node = function.node
        if isinstance(node, ast.Lambda):
            self._note_return(node.body)
        else:
            after = self._block(node.body, env)
            if after is not None:
                self.scope.env = after
                self._note_return(None)
                note_initial(self.scope, after)

    # ---- blocks ----

    def _block(self, statements: Sequence[ast.stmt], env: Environment | None) -> Environment | None:
        """The environment after `statements`; None if their end is not reachable."""
        for statement in statements:
            if env is None:
                return None
            self.scope.env = env
            let_unseen_run(self.scope)
            for way in self._raises:
                way.append(env.copy())
            if (visit := self._SIMPLE.get(type(statement))) is not None:
                self._once(statement, partial(visit, self, statement))
                env = None if isinstance(statement, (ast.Return, ast.Raise)) else self.scope.env
            elif (handler := self._COMPOUND.get(type(statement))) is not None:
                env = handler(self, statement)
        return env

    def _once(self, node: ast.AST, visit: Callable[[], object]) -> None:
        """Visit a statement or the head of one, or replay it if nothing that it read has changed."""
        self._records.visit(node, self.scope, visit)

    def _if(self, node: ast.If) -> Environment | None:
        self._once(node.test, lambda: self.evaluator.evaluate(node.test))
        env = self.scope.env
        if is_main_guard(node) and not self.scope.hierarchy.project.is_run_as_main(self.unit):
            return self._block(node.orelse, env)  # an imported file is not the main program
        ways = [self._block(node.body, env.copy()), self._block(node.orelse, env.copy())]
        return join_environments(ways, ("if", self.scope.locate(node)))

    def _for(self, node: ast.For | ast.AsyncFor) -> Environment | None:
        def head() -> None:
            held = self.evaluator.evaluate(node.iter)
            self._contexts.go_over(node.iter, held)
            self.stores.store_element(node.target, self.stores.met(node, held), node)

        return self._loop(lambda: self._once(node.iter, head), node, is_endless=False)

    def _while(self, node: ast.While) -> Environment | None:
        is_endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        return self._loop(
            lambda: self._once(node.test, lambda: self.evaluator.evaluate(node.test)), node, is_endless=is_endless
        )

    def _loop(
        self, head: Callable[[], object], node: ast.For | ast.AsyncFor | ast.While, *, is_endless: bool
    ) -> Environment | None:
        # Names only gain objects and paths only get lost, so the iteration terminates.
        entry = before = self.scope.env
        place, rounds = ("round", self.scope.locate(node)), 0
        while True:
            self._breaks.append([])
            self._continues.append([])
            self.scope.env = before.copy()
            let_unseen_run(self.scope)
            head()
            entered = self.scope.env.copy()
            after = self._block(node.body, self.scope.env)
            broken, continued = self._breaks.pop(), self._continues.pop()
            again = join_environments([entry, before, after, *continued], place)
            assert again is not None
            rounds += 1
            numbered = join_environments([entry, after, *continued], place)
            again = again.numbered_as(Environment() if rounds > _MAX_NUMBERED_ROUNDS else numbered or Environment())
            if again == before:
                break
            before = again
        behind = (BEHIND, self.scope.locate(node))
        if is_endless:
            return leave_loop(join_environments(broken, behind), entry, behind)
        # At the exit of a `while` loop its test has run once more; a `for` loop has not assigned another element.
        left = entered if isinstance(node, ast.While) else before.copy()
        left_over = self._block(node.orelse, leave_loop(left, entry, (LAST, self.scope.locate(node))))
        return leave_loop(join_environments([left_over, *broken], behind), entry, behind)

    def _break(self, _node: ast.Break) -> None:
        if self._breaks:
            self._breaks[-1].append(self.scope.env.copy())

    def _continue(self, _node: ast.Continue) -> None:
        if self._continues:
            self._continues[-1].append(self.scope.env.copy())

    def _with(self, node: ast.With | ast.AsyncWith) -> Environment | None:
        may_suppress = False
        contexts: list[tuple[ast.expr, Value]] = []
        for item in node.items:
            held = self.evaluator.evaluate(item.context_expr)
            contexts.append((item.context_expr, held))
            may_suppress |= self._contexts.may_suppress(item.context_expr, held)
            if item.optional_vars is not None:
                entered, number = self._contexts.enter(item.context_expr, held)
                numbers = {} if number is None else {id(item.optional_vars): number}
                self.stores.store(item.optional_vars, entered, node, None, numbers)
        for expression, held in contexts:
            self._contexts.go_over(expression, held)
        if may_suppress:
            self._raises.append([self.scope.env.copy()])
        after = self._block(node.body, self.scope.env)
        if may_suppress:
            after = join_environments([after, *self._raises.pop()], ("with", self.scope.locate(node)))
        if after is not None:
            self.scope.env = after
            for expression, held in contexts:
                self._contexts.go_over(expression, held)
        return after

    def _try(self, node: ast.Try) -> Environment | None:
        if not node.finalbody:
            return self._try_body(node)[0]
        stacks = [stack for stack in (self._breaks, self._continues) if stack]
        outer = [stack[-1] for stack in stacks]
        for stack in stacks:
            stack[-1] = []
        left_normally, left_anyhow = self._try_body(node)
        left_early = [join_environments(stack[-1]) for stack in stacks]
        for stack, kept in zip(stacks, outer, strict=True):
            stack[-1] = kept
        *early, after, failed = self._final_block(node, [*left_early, left_normally, left_anyhow])
        for kept, end in zip(outer, early, strict=True):
            if end is not None:
                kept.append(end)
        if failed is not None:
            for way in self._raises:
                way.append(failed.copy())
        return after

    def _final_block(self, node: ast.Try, ways: list[Environment | None]) -> list[Environment | None]:
        """The environments after the `finally` block for each environment before it; the last is that of any exit.

        The code is the same for each way, but the objects differ. What the last visit records is kept, and must hold
        for all ways. In deeply nested `finally` blocks the ways are merged, as the number of visits would grow
        exponentially.
        """
        self._final_blocks += 1
        if self._final_blocks <= _MAX_FINAL_BLOCKS:
            ends = [self._block(node.finalbody, way) for way in ways]
        else:
            end = self._block(node.finalbody, ways[-1])
            ends = [None if end is None or way is None else end.copy() for way in ways]
        self._final_blocks -= 1
        return ends

    def _try_body(self, node: ast.Try) -> tuple[Environment | None, Environment | None]:
        """The environment after all but the `finally` block, and the join of all environments in which it may begin."""
        self._raises.append([self.scope.env.copy()])
        self._raises.append([self.scope.env.copy()])
        after_body = self._block(node.body, self.scope.env.copy())
        raised = self._raises.pop()
        if after_body is not None:
            raised.append(after_body.copy())
        caught = join_environments(raised, ("caught", self.scope.locate(node)))
        ways = [self._block(node.orelse, after_body)]
        for handler in node.handlers:
            if caught is not None:
                start = caught.copy()
                self.scope.env = start
                self.evaluator.evaluate(handler.type)
                if handler.name:
                    self.scope.assign((handler.name,), OPAQUE)
                ways.append(self._block(handler.body, start))
        after = join_environments(ways, ("try", self.scope.locate(node)))
        return after, join_environments([*self._raises.pop(), caught, after], ("finally", self.scope.locate(node)))

    def _match(self, node: ast.Match) -> Environment | None:
        held = self.evaluator.evaluate(node.subject)
        env = self.scope.env
        ways: list[Environment | None] = []
        is_exhaustive = False
        for case in node.cases:
            self.scope.env = env.copy()
            self.stores.match(case.pattern, held)
            self.evaluator.evaluate(case.guard)
            ways.append(self._block(case.body, self.scope.env))
            is_last_resort = isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
            is_exhaustive |= is_last_resort and case.guard is None
        return join_environments(ways if is_exhaustive else [env, *ways], ("match", self.scope.locate(node)))

    # ---- simple statements ----

    def _annotated_assign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.stores.assign([node.target], node.value, node)

    def _note_return(self, node: ast.expr | None) -> None:
        held = self.evaluator.evaluate(node)
        if self.function is not None:
            held = held if node is None else self.stores.returned(node, held)
            note_declared(self.scope, self.unit, getattr(self.function.node, "returns", None), held)
            parts = node.elts if isinstance(node, ast.Tuple) else [node]
            numbers = [self.evaluator.numbering.of(part) for part in parts if part is not None]
            note_left_behind(self.facts, self.scope.key, self.scope.env, held, numbers)
            if node is not None:
                number = self.evaluator.numbering.of(node)
                self.facts.note_given(self.facts.returned_numbers, self.function.key, node, number)
            inside = [atom for atom in held if isinstance(atom, Box)]
            # The receiver of a container cannot be told which of its elements was made where.
            is_kept = (
                self._is_cached()
                or is_special(self.function.name)  # `for`, `[]` and the like get the value
                or self.function.key in self.facts.yields  # only `yield from` gives the value
            )
            kept = held if is_kept else frozenset(inside)
            self.facts.captured.keep(kept)
            self.facts.grow(self.facts.returns, self.function.key, held)

    def _is_cached(self) -> bool:
        """Whether a decorator caches what the function returns, so that all callers get the same object."""
        return self.function is not None and any("cache" in name for name in decorator_names(self.function))

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self.stores.delete(target)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name, held in self.scope.imported(node).items():
            self.scope.assign((name,), held)

    def _global(self, node: ast.Global) -> Environment:
        for name in node.names:
            self.scope.declare(name, self.unit.name)
        return self.scope.env

    def _nonlocal(self, node: ast.Nonlocal) -> Environment:
        above = self.function.parent if self.function is not None else None
        while above is not None:
            for name in node.names:
                if (above.key, name) in self.facts.scopes and name not in self.scope.globals:
                    self.scope.declare(name, above.key)
            above = above.parent
        return self.scope.env

    # ---- definitions ----

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Environment:
        function = self.unit.function_of[node]
        self.evaluator.bind_defaults(function)
        held = value(FunctionRef(function.key))
        for decorator in reversed(node.decorator_list):
            held = self._decorated(decorator, held)
        if self.unit.name in self.facts.whole_units:
            self.facts.demand(function)  # those of other files matter once they are called or passed to unseen code
        if is_remembering(function, self.evaluator.evaluate):
            self.facts.remembering.add(function.key)
        if self.scope.class_body is None:
            self.scope.assign((node.name,), held)
        return self.scope.env

    def _decorated(self, node: ast.expr, held: Value) -> Value:
        """The result of decorating a function. An unknown decorator may call it, but its result stands for it."""
        results: list[Value] = []
        called = node.func if isinstance(node, ast.Call) else node
        holder = called.value if isinstance(called, ast.Attribute) and called.attr == "register" else None
        if holder is not None and any(map(is_dispatching, self._functions(self.evaluator.evaluate(holder)))):
            return held  # only the dispatching function calls it
        for atom in self.evaluator.evaluate(node):
            if isinstance(atom, (FunctionRef, ClassRef, Method, Partial, Instance)):
                results.append(self.evaluator.calls.apply(atom, node, Arguments((held,))))
                if self.scope.class_body is not None:
                    self.evaluator.calls.effects.escape(held)  # methods are looked up without their decorators
            elif atom in _DISPATCHERS:
                results.append(join(map(self.scope.dispatched, self._functions(held))))
            elif not self._is_transparent(atom):
                self.evaluator.calls.effects.escape(held)
        return join(results) or held

    def _functions(self, held: Value) -> list[Function]:
        keys = [atom.key for atom in in_order(held) if isinstance(atom, FunctionRef)]
        return [each for key in keys if (each := self.scope.kinds.function_at(key)) is not None]

    def _decorated_class(self, node: ast.expr, held: Value) -> Value:
        """The result of decorating a class. Methods and unknown decorators are taken to return the class."""
        makers = self.evaluator.evaluate(node)
        calls = self.evaluator.calls
        made = [calls.apply(atom, node, Arguments((held,))) for atom in makers if isinstance(atom, FunctionRef)]
        return join(made) or held

    def _is_transparent(self, atom: object) -> bool:
        if isinstance(atom, Named):
            return is_transparent_decorator(atom.name)
        if isinstance(atom, Made) and atom.site in self.facts.sites:
            labels = self.facts.sites[atom.site].labels
            return bool(labels) and all(is_transparent_decorator(label) for label in labels)
        return False

    def _class(self, node: ast.ClassDef) -> Environment:
        cls = self.unit.class_of[node]
        for expression in (*node.bases, *(keyword.value for keyword in node.keywords)):
            self.evaluator.evaluate(expression)
        outer_class, outer = self.scope.class_body, self.scope.env
        if outer_class is None:
            self.scope.around_class = outer.copy()
        around = self.scope.around_class
        self.scope.class_body = cls
        after = self._block(node.body, around.copy())
        self.scope.class_body = outer_class
        if after is not None:
            self._keep_class_attributes(cls, around, after)
        if after is not None and outer_class is None:
            for name in names_bound_in(node):
                after.forget((name,))
                if name in outer.names:
                    after.assign((name,), outer.names[name], outer.numbers.get((name,)))
            outer = after
        self.scope.env = outer
        self._run_at_creation(cls)
        held = value(ClassRef(cls.key))
        for decorator in reversed(node.decorator_list):
            held = self._decorated_class(decorator, held)
        if outer_class is None:
            self.scope.assign((node.name,), held)
        return self.scope.env

    def _run_at_creation(self, cls: Class) -> None:
        """Call what Python calls when it makes a class: its metaclass's methods, and the inherited hook."""
        given = {each.arg: self.evaluator.evaluate(each.value) for each in cls.node.keywords if each.arg}
        given.pop("metaclass", None)
        made, hierarchy = value(ClassRef(cls.key)), self.scope.hierarchy
        node = cls.node.bases[0] if cls.node.bases else next((each.value for each in cls.node.keywords), None)
        metaclass = hierarchy.metaclass(cls)
        if metaclass is not None:
            self.facts.grow(self.facts.attributes, (Instance(metaclass.key), CREATED), made)
        above = hierarchy.ancestors(cls)[1:]
        hook = next((each.methods[_SUBCLASS_HOOK] for each in above if _SUBCLASS_HOOK in each.methods), None)
        creators = [] if metaclass is None else [hierarchy.method(metaclass, each) for each in ("__new__", "__init__")]
        for method in (*creators, hook):
            if method is not None and node is not None:
                is_new = method.name == "__new__"
                first = value(ClassRef(metaclass.key)) if is_new and metaclass is not None else made
                rest = (PLAIN, OPAQUE, OPAQUE) if method is not hook else ()
                self.evaluator.calls.apply(FunctionRef(method.key), node, Arguments((first, *rest), given))

    def _keep_class_attributes(self, cls: Class, outer: Environment, after: Environment) -> None:
        for name in sorted(after.names.differences(outer.names)):
            held = after.names.get(name)
            if held is not None:
                # What a library makes may be a descriptor, or determine the attributes of instances.
                is_made = any(isinstance(atom, Made) and not self.scope.kinds.is_module(atom) for atom in held)
                kept = held | OPAQUE if is_made else held
                self.facts.grow(self.facts.attributes, (Instance(cls.key), name), kept)
                if self.scope.hierarchy.is_module(cls):
                    containers = frozenset(atom for atom in held if isinstance(atom, (Box, Pack)))
                    self.facts.hidden.update(self.facts.contents.reach(containers))

    # Statements that contain no others are replayed.
    _SIMPLE: ClassVar[dict[type[ast.stmt], Callable[..., object]]] = {
        ast.Assign: lambda self, node: self.stores.assign(node.targets, node.value, node),
        ast.AnnAssign: _annotated_assign,
        ast.AugAssign: lambda self, node: self.stores.augment(node),
        ast.Expr: lambda self, node: self.evaluator.evaluate(node.value),
        ast.Return: lambda self, node: self._note_return(node.value),
        ast.Raise: lambda self, node: self.evaluator.evaluate(node.exc),
        ast.Assert: lambda self, node: self.evaluator.evaluate(node.test),
        ast.Delete: _delete,
        ast.Import: _import,
        ast.ImportFrom: _import,
    }
    _COMPOUND: ClassVar[dict[type[ast.stmt], Callable[..., Environment | None]]] = {
        ast.Break: _break,
        ast.Continue: _continue,
        ast.If: _if,
        ast.For: _for,
        ast.AsyncFor: _for,
        ast.While: _while,
        ast.With: _with,
        ast.AsyncWith: _with,
        ast.Try: _try,
        ast.Match: _match,
        ast.FunctionDef: _function,
        ast.AsyncFunctionDef: _function,
        ast.ClassDef: _class,
        ast.Global: _global,
        ast.Nonlocal: _nonlocal,
    }
    if hasattr(ast, "TryStar"):
        _COMPOUND[ast.TryStar] = _try
