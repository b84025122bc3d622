"""The forward pass over one function or file: statement by statement, branches joined, loops to a fixpoint."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.analysis.environment import Environment, join_environments, path_of
from instrumentor.analysis.expressions import Evaluator, text_of
from instrumentor.analysis.facts import Binding
from instrumentor.analysis.values import (
    NOTHING,
    OPAQUE,
    Box,
    ClassRef,
    FunctionRef,
    Instance,
    Made,
    Parameter,
    Part,
    Value,
    is_object,
    join,
    strip,
    value,
)
from instrumentor.resolve.nature import Nature

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from instrumentor.analysis.facts import Facts
    from instrumentor.resolve.classes import Hierarchy
    from instrumentor.resolve.units import Class, Function, Unit

# Joins only ever add to finitely many paths, so loops settle by themselves; the bound is for the time it takes.
_MAX_LOOP_ROUNDS = 6


class Pass:
    """One visit of one scope."""

    def __init__(self, facts: Facts, hierarchy: Hierarchy, unit: Unit, function: Function | None) -> None:
        self.facts = facts
        self.unit = unit
        self.function = function
        self.evaluator = Evaluator(facts, hierarchy, unit, function, Environment())
        self._breaks: list[list[Environment]] = []
        self._continues: list[list[Environment]] = []
        self._raises: list[list[Environment]] = []
        self._handlers: dict[type[ast.stmt], Callable[..., Environment | None]] = {
            ast.Assign: self._assign,
            ast.AnnAssign: self._annotated_assign,
            ast.AugAssign: self._augmented_assign,
            ast.Expr: self._expression,
            ast.Return: self._return,
            ast.Raise: self._raise,
            ast.Break: self._break,
            ast.Continue: self._continue,
            ast.If: self._if,
            ast.For: self._for,
            ast.AsyncFor: self._for,
            ast.While: self._while,
            ast.With: self._with,
            ast.AsyncWith: self._with,
            ast.Try: self._try,
            ast.Match: self._match,
            ast.FunctionDef: self._function,
            ast.AsyncFunctionDef: self._function,
            ast.ClassDef: self._class,
            ast.Import: self._import,
            ast.ImportFrom: self._import,
            ast.Global: self._global,
            ast.Nonlocal: self._nonlocal,
            ast.Delete: self._delete,
            ast.Assert: self._assert,
        }
        if hasattr(ast, "TryStar"):
            self._handlers[ast.TryStar] = self._try

    def run(self) -> None:
        """Visit the whole scope."""
        if self.function is None:
            self._block(self.unit.tree.body, Environment())
            return
        env = Environment()
        self.evaluator.env = env
        for name, held in self._parameters(self.function).items():
            self.evaluator.assign_path(name, held)
        node = self.function.node
        if isinstance(node, ast.Lambda):
            self._note_return(self.evaluator.evaluate(node.body))
        elif self._block(node.body, env) is not None:
            self.facts.grow(self.facts.returns, self.function.key, OPAQUE)

    def _parameters(self, function: Function) -> dict[str, Value]:
        declared = function.node.args
        positional = [each.arg for each in (*declared.posonlyargs, *declared.args)]
        names = [*positional, *(each.arg for each in declared.kwonlyargs)]
        held: dict[str, Value] = {name: value(Parameter(function.key, name)) for name in names}
        for several in (declared.vararg, declared.kwarg):
            if several is not None:
                box = Box(self.evaluator.key(several))
                self.evaluator.put(box, "*", value(Parameter(function.key, several.arg)))
                held[several.arg] = value(box)
        receiver = self._receiver(function)
        if positional and receiver is not None:
            held[positional[0]] = receiver
        return held

    def _receiver(self, function: Function) -> Value | None:
        """What a method's first parameter holds; None where it is a parameter like others."""
        owner, node = function.owner, function.node
        if owner is None or isinstance(node, ast.Lambda) or owner.methods.get(node.name) is not function:
            return None
        decorators = {each.id for each in node.decorator_list if isinstance(each, ast.Name)}
        if "staticmethod" in decorators:
            return None
        if "classmethod" in decorators:
            return value(ClassRef(owner.key))
        hierarchy = self.evaluator.hierarchy
        return value(Instance(owner.key)) if hierarchy.nature(owner) is Nature.NOT_MODULE else None

    # ---- blocks ----

    def _block(self, statements: Sequence[ast.stmt], env: Environment | None) -> Environment | None:
        """What holds after `statements`; None where their end is not reached."""
        for statement in statements:
            if env is None:
                return None
            self.evaluator.env = env
            for way in self._raises:
                way.append(env.copy())
            handler = self._handlers.get(type(statement))
            if handler is not None:
                env = handler(statement)
        return env

    def _env(self) -> Environment:
        return self.evaluator.env

    def _if(self, node: ast.If) -> Environment | None:
        self.evaluator.evaluate(node.test)
        env = self._env()
        return join_environments([self._block(node.body, env.copy()), self._block(node.orelse, env.copy())])

    def _for(self, node: ast.For | ast.AsyncFor) -> Environment | None:
        def head() -> None:
            elements = self.evaluator.elements_of(self.evaluator.evaluate(node.iter))
            self.evaluator.bind_target(node.target, elements, node)

        return self._loop(head, node.body, node.orelse)

    def _while(self, node: ast.While) -> Environment | None:
        return self._loop(lambda: self.evaluator.evaluate(node.test), node.body, node.orelse)

    def _loop(
        self, head: Callable[[], object], body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]
    ) -> Environment | None:
        entry = self._env()
        before: Environment | None = entry
        for _ in range(_MAX_LOOP_ROUNDS):
            self._breaks.append([])
            self._continues.append([])
            assert before is not None
            self.evaluator.env = before.copy()
            head()
            after = self._block(body, self._env())
            broken, continued = self._breaks.pop(), self._continues.pop()
            again = join_environments([entry, after, *continued])
            if again == before:
                break
            before = again
        assert before is not None
        return join_environments([self._block(orelse, before.copy()), *broken])

    def _break(self, _node: ast.Break) -> None:
        if self._breaks:
            self._breaks[-1].append(self._env().copy())

    def _continue(self, _node: ast.Continue) -> None:
        if self._continues:
            self._continues[-1].append(self._env().copy())

    def _with(self, node: ast.With | ast.AsyncWith) -> Environment | None:
        for item in node.items:
            held = self.evaluator.evaluate(item.context_expr)
            if item.optional_vars is not None:
                entered = self._entered(held)
                self._store(item.optional_vars, entered, node, None)
        return self._block(node.body, self._env())

    def _entered(self, held: Value) -> Value:
        """What `with ... as` binds: what a generator yields, else mostly the object itself."""
        return join(
            [
                self.evaluator.elements_of(value(atom))
                if not is_object(atom) and not isinstance(atom, Instance)
                else value(atom)
                for atom in held
            ]
            or [NOTHING]
        )

    def _try(self, node: ast.Try) -> Environment | None:
        self._raises.append([self._env().copy()])
        after_body = self._block(node.body, self._env().copy())
        raised = self._raises.pop()
        if after_body is not None:
            raised.append(after_body.copy())
        caught = join_environments(raised)
        ways = [self._block(node.orelse, after_body)]
        for handler in node.handlers:
            if caught is not None:
                start = caught.copy()
                self.evaluator.env = start
                if handler.name:
                    self.evaluator.assign_path(handler.name, OPAQUE)
                ways.append(self._block(handler.body, start))
        joined = join_environments(ways)
        if joined is None:
            # The end is not reached, but the final block runs all the same.
            self._block(node.finalbody, caught.copy() if caught is not None else None)
            return None
        return self._block(node.finalbody, joined)

    def _match(self, node: ast.Match) -> Environment | None:
        held = self.evaluator.evaluate(node.subject)
        env = self._env()
        ways: list[Environment | None] = [env]
        for case in node.cases:
            self.evaluator.env = env.copy()
            for pattern in ast.walk(case.pattern):
                name = getattr(pattern, "name", None) or getattr(pattern, "rest", None)
                if isinstance(name, str):
                    whole = pattern is case.pattern or (isinstance(pattern, ast.MatchAs) and pattern.pattern is None)
                    self.evaluator.assign_path(name, held if whole else OPAQUE)
            self.evaluator.evaluate(case.guard)
            ways.append(self._block(case.body, self._env()))
        return join_environments(ways)

    # ---- simple statements ----

    def _assign(self, node: ast.Assign) -> Environment:
        held = self._read(node.targets, node.value)
        for target in node.targets:
            self._store(target, held, node, node.value)
        return self._env()

    def _annotated_assign(self, node: ast.AnnAssign) -> Environment:
        if node.value is not None:
            self._store(node.target, self._read([node.target], node.value), node, node.value)
        return self._env()

    def _augmented_assign(self, node: ast.AugAssign) -> Environment:
        added = self.evaluator.evaluate(node.value)
        before = self.evaluator.evaluate(_as_load(node.target))
        for atom in before:
            if isinstance(atom, Box):
                self.evaluator.put(atom, "*", self.evaluator.elements_of(added))
        path = path_of(node.target)
        if path is not None and not any(isinstance(atom, Box) for atom in before):
            self.evaluator.assign_path(path, join((before, added)))
        return self._env()

    def _read(self, targets: Sequence[ast.expr], node: ast.expr) -> Value:
        """What a statement stores; an object fetched from where nobody sees is a site of its own."""
        held = self.evaluator.evaluate(node)
        single = len(targets) == 1 and isinstance(targets[0], (ast.Name, ast.Attribute))
        if not single or not isinstance(node, (ast.Attribute, ast.Subscript)) or not self._is_fetched(node, held):
            return held
        site = self.evaluator.site(node, Nature.UNKNOWN, text_of(node))
        site.is_read = True
        site.arguments = join((site.arguments, frozenset(atom for atom in held if is_object(atom)), self._base(node)))
        return join((held, value(Made(site.key))))

    def _is_fetched(self, node: ast.expr, held: Value) -> bool:
        if not held or not self.evaluator.is_nothing_known(held):
            return False
        base = node
        while isinstance(base, (ast.Attribute, ast.Subscript, ast.Call)):
            base = base.func if isinstance(base, ast.Call) else base.value
        # What hangs on a parameter or on `self` is the caller's, who has it from a construction elsewhere.
        if not isinstance(base, ast.Name):
            return False
        holder = self.evaluator.lookup(base.id)
        return bool(holder) and not any(isinstance(strip(atom), (Parameter, Instance)) for atom in holder)

    def _base(self, node: ast.expr) -> Value:
        base = node
        while isinstance(base, (ast.Attribute, ast.Subscript)):
            base = base.value
        return frozenset(atom for atom in self.evaluator.evaluate(base) if isinstance(atom, (Made, Part)))

    def _store(self, target: ast.expr, held: Value, statement: ast.stmt, source: ast.expr | None) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, held, statement, source)
            return
        if isinstance(target, ast.Starred):
            box = Box(self.evaluator.key(target))
            self.evaluator.put(box, "*", self.evaluator.elements_of(held))
            self._store(target.value, value(box), statement, None)
            return
        receiver = NOTHING
        if isinstance(target, (ast.Attribute, ast.Subscript)):
            receiver = self.evaluator.evaluate(target.value)
            if isinstance(target, ast.Subscript):
                self.evaluator.evaluate(target.slice)
            self._store_into(target, receiver, held)
        path = path_of(target)
        if path is not None:
            self.evaluator.assign_path(path, held)
        self.facts.bind(Binding(self.unit, self.function, statement, target, text_of(target), held, receiver, source))

    def _unpack(self, target: ast.Tuple | ast.List, held: Value, statement: ast.stmt, source: ast.expr | None) -> None:
        parts = source.elts if isinstance(source, (ast.Tuple, ast.List)) else []
        aligned = len(parts) == len(target.elts) and not any(
            isinstance(each, ast.Starred) for each in (*parts, *target.elts)
        )
        starred = next((i for i, each in enumerate(target.elts) if isinstance(each, ast.Starred)), len(target.elts))
        for position, element in enumerate(target.elts):
            if position < starred:
                item = self.evaluator.unpacked(held, position, len(target.elts))
            else:
                item = self.evaluator.elements_of(held) if position > starred else held
            self._store(element, item, statement, parts[position] if aligned else source)

    def _store_into(self, target: ast.Attribute | ast.Subscript, receiver: Value, held: Value) -> None:
        name = target.attr if isinstance(target, ast.Attribute) else None
        self.facts.add(self.facts.captured, (strip(atom) for atom in self.facts.reach(held)))
        for atom in receiver:
            base = strip(atom)
            if isinstance(atom, Box) and isinstance(target, ast.Subscript):
                index = target.slice
                self.evaluator.put(atom, repr(index.value) if isinstance(index, ast.Constant) else "*", held)
            elif name is not None and isinstance(atom, ClassRef):
                self.facts.grow(self.facts.attributes, (Instance(atom.key), name), held)
            elif name is not None:
                self.facts.grow(self.facts.attributes, (base, name), held)
            if self._is_module(base):
                event = self.evaluator.event(target, text_of(target.value))
                self.facts.note_event(self.facts.absorbed, self.facts.reach(held), event)

    def _is_module(self, base: object) -> bool:
        """Whether what is stored into an object becomes its submodule."""
        if isinstance(base, Part):
            return True
        if isinstance(base, Made):
            return self.evaluator.nature(base) in (Nature.MODULE, Nature.NO_PARAMS)
        if isinstance(base, Parameter) and self.evaluator.is_self(base) and self.function is not None:
            owner = self.function.owner
            return owner is not None and self.evaluator.hierarchy.is_module(owner)
        return False

    def _expression(self, node: ast.Expr) -> Environment:
        self.evaluator.evaluate(node.value)
        return self._env()

    def _assert(self, node: ast.Assert) -> Environment:
        self.evaluator.evaluate(node.test)
        return self._env()

    def _return(self, node: ast.Return) -> None:
        self._note_return(self.evaluator.evaluate(node.value))

    def _note_return(self, held: Value) -> None:
        if self.function is not None:
            inside = [atom for atom in held if isinstance(atom, Box)]
            # Whoever gets a container cannot be shown which of its elements was made where.
            kept = held if self._is_cached() else frozenset(inside)
            self.facts.add(self.facts.captured, (strip(atom) for atom in self.facts.reach(kept)))
            self.facts.grow(self.facts.returns, self.function.key, held)

    def _is_cached(self) -> bool:
        """Whether a decorator keeps what the function returns and hands the same object to every caller."""
        node = None if self.function is None else self.function.node
        for decorator in getattr(node, "decorator_list", []):
            maker = decorator.func if isinstance(decorator, ast.Call) else decorator
            name = maker.attr if isinstance(maker, ast.Attribute) else getattr(maker, "id", "")
            if "cache" in name:
                return True
        return False

    def _raise(self, node: ast.Raise) -> None:
        self.evaluator.evaluate(node.exc)

    def _delete(self, node: ast.Delete) -> Environment:
        for target in node.targets:
            path = path_of(target)
            if path is not None:
                self._env().forget(path)
        return self._env()

    def _import(self, node: ast.Import | ast.ImportFrom) -> Environment:
        for name, held in self.evaluator.imported(node).items():
            self.evaluator.assign_path(name, held)
        return self._env()

    def _global(self, node: ast.Global) -> Environment:
        self.evaluator.globals.update(dict.fromkeys(node.names, self.unit.name))
        return self._env()

    def _nonlocal(self, node: ast.Nonlocal) -> Environment:
        above = self.function.parent if self.function is not None else None
        while above is not None:
            for name in node.names:
                if (above.key, name) in self.facts.scopes:
                    self.evaluator.globals.setdefault(name, above.key)
            above = above.parent
        return self._env()

    # ---- definitions ----

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Environment:
        function = self.unit.function_of[node]
        for decorator in node.decorator_list:
            self.evaluator.evaluate(decorator)
        self.evaluator.bind_defaults(function)
        if self.function is None or function.parent is self.function:
            self.evaluator.demand(function)
        if self.evaluator.class_body is None:
            self.evaluator.assign_path(node.name, value(FunctionRef(function.key)))
        return self._env()

    def _class(self, node: ast.ClassDef) -> Environment:
        cls = self.unit.class_of[node]
        for expression in (*node.decorator_list, *node.bases):
            self.evaluator.evaluate(expression)
        outer_class, outer = self.evaluator.class_body, self._env()
        self.evaluator.class_body = cls
        after = self._block(node.body, outer.copy())
        self.evaluator.class_body = outer_class
        if after is not None:
            self._keep_class_attributes(cls, outer, after)
        self.evaluator.env = outer
        if outer_class is None:
            self.evaluator.assign_path(node.name, value(ClassRef(cls.key)))
        return outer

    def _keep_class_attributes(self, cls: Class, outer: Environment, after: Environment) -> None:
        for path, held in after.paths.items():
            if "." not in path and "[" not in path and outer.get(path) != held:
                self.facts.grow(self.facts.attributes, (Instance(cls.key), path), held)


def _as_load(target: ast.Name | ast.Attribute | ast.Subscript) -> ast.expr:
    return target
