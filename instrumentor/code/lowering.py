"""A file's tree to its facts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from instrumentor.code.facts import Call, ClassFacts, FileFacts, ScopeFacts
from instrumentor.code.method_names import (
    CONTAINER_METHODS,
    PLAIN_DECORATORS,
    PLAIN_METHODS,
    PUTTING_METHODS,
    USES_OF_MODULES,
)
from instrumentor.resolve.added_folders import added_folders
from instrumentor.resolve.bindings import annotated_items, annotated_names
from instrumentor.resolve.catalogue import BACKWARD
from instrumentor.source.nodes import DISPLAYS, TRIES, positional_parameters, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from instrumentor.code.facts import ScopeKind

# Calls of these look at attributes of objects that are no modules, such as `dict(parser.parameters)`.
_READING = frozenset({"dict", "len", "list", "set", "sorted", "tuple"})
_PLAIN_ANNOTATIONS = frozenset(
    {"Any", "Callable", "Dict", "Iterable", "List", "Tensor", "Tuple", "bool", "bytes", "dict", "float", "int", "list",
     "object", "set", "str", "torch.Tensor", "tuple"}
)  # fmt: skip
_OPERATORS = {
    ast.Add: "add", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.Div: "truediv", ast.FloorDiv: "floordiv",
    ast.LShift: "lshift", ast.MatMult: "matmul", ast.Mod: "mod", ast.Mult: "mul", ast.Pow: "pow", ast.RShift: "rshift",
    ast.Sub: "sub",
}  # fmt: skip
# Containers are joined and repeated so; other operators compute.
_JOINING = (ast.Add, ast.BitOr, ast.Mult)
_UNARY = {ast.Invert: "__invert__", ast.USub: "__neg__", ast.UAdd: "__pos__"}
_COMPARISONS = {
    ast.Eq: "__eq__", ast.NotEq: "__ne__", ast.Lt: "__lt__", ast.LtE: "__le__", ast.Gt: "__gt__", ast.GtE: "__ge__",
    ast.In: "__contains__", ast.NotIn: "__contains__",
}  # fmt: skip
_ROUNDS = ("__iter__", "__next__", "__getitem__")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def lower(tree: ast.Module) -> FileFacts:
    """The facts of a file.

    Raises:
        RecursionError: it is nested too deeply.
    """
    lowering = _Lowering()
    lowering.file(tree)
    return lowering.facts(tree)


class _Scope:
    """A scope while it is lowered."""

    __slots__ = (
        "around", "bound", "class_number", "filled", "is_top_function", "kind", "named", "names", "number", "outer",
        "packed", "result",
    )  # fmt: skip

    def __init__(self, kind: ScopeKind, number: int, around: _Scope | None) -> None:
        self.kind = kind
        self.number = number
        self.around = around
        self.names: dict[str, int] = {}
        self.bound: set[str] = set()
        # The names of containers that something is put into.
        self.filled: set[str] = set()
        # The names that it declares to be the file's, or a function's around it.
        self.outer: dict[str, bool] = {}
        self.class_number = -1
        self.result = 0
        self.is_top_function = False
        # The name of its `**kwargs`.
        self.packed = ""
        # Names given to what a call gives, as far as nothing but a `return` may read them.
        self.named: list[str] = []


class _Lowering:
    def __init__(self) -> None:
        self._scopes: list[ScopeFacts | None] = []
        self._classes: list[ClassFacts | None] = []
        self._scope_of = [0]
        self._imports: list[tuple[int, str]] = []
        self._modules: dict[str, None] = {}
        self._stars: list[str] = []
        self._unbound: list[tuple[str, int]] = []
        self._functions: list[tuple[int, int]] = []
        self._copies: list[tuple[int, int]] = []
        self._shared: list[tuple[int, int]] = []
        self._boxed: list[tuple[int, int]] = []
        self._unboxed: list[tuple[int, int]] = []
        self._computed: list[tuple[int, int]] = []
        self._loads: list[tuple[int, int, str]] = []
        self._stores: list[tuple[int, str, int]] = []
        self._keyed: list[tuple[str, int]] = []
        self._keyed_reads: list[tuple[str, int]] = []
        self._kept: list[tuple[int, str, int]] = []
        self._calls: list[Call] = []
        self._declared: list[tuple[int, list[int]]] = []
        self._used: dict[int, None] = {}
        self._trained: dict[int, None] = {}
        self._run: set[str] = set()
        self._values_read: set[str] = set()
        self._imported: set[str] = set()
        self._repeated = 0
        self._top: _Scope | None = None
        self._scope = _Scope("file", 0, None)
        # What a call is passed or made of, by its node, where it is no more than returned.
        self._only_returned: set[int] = set()
        self._expressions: dict[type[ast.AST], Callable[..., int]] = {
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Call: self._call,
            ast.Subscript: self._subscript,
            ast.Tuple: self._display,
            ast.List: self._display,
            ast.Set: self._display,
            ast.Dict: self._dict,
            ast.BinOp: self._binary,
            ast.UnaryOp: self._unary,
            ast.BoolOp: self._choice,
            ast.Compare: self._comparison,
            ast.IfExp: self._conditional,
            ast.Lambda: self._lambda,
            ast.Starred: self._inner_value,
            ast.Await: self._inner_value,
            ast.NamedExpr: self._named_expression,
            ast.ListComp: self._comprehension,
            ast.SetComp: self._comprehension,
            ast.GeneratorExp: self._comprehension,
            ast.DictComp: self._comprehension,
            ast.Yield: self._yield,
            ast.YieldFrom: self._yield_from,
            ast.Constant: _nothing,
        }
        self._statements: dict[type[ast.AST], Callable[..., None]] = {
            ast.Expr: self._expression_statement,
            ast.Assign: self._assign,
            ast.AnnAssign: self._annotated,
            ast.AugAssign: self._augmented,
            ast.Return: self._return,
            ast.If: self._if,
            ast.While: self._while,
            ast.For: self._for,
            ast.AsyncFor: self._for,
            ast.With: self._with,
            ast.AsyncWith: self._with,
            ast.FunctionDef: self._function,
            ast.AsyncFunctionDef: self._function,
            ast.ClassDef: self._class,
            ast.Import: self._import,
            ast.ImportFrom: self._import_from,
            ast.Global: self._global,
            ast.Nonlocal: self._global,
            **dict.fromkeys(TRIES, self._try),
        }

    def facts(self, tree: ast.Module) -> FileFacts:
        """What was found."""
        top = self._scope
        imported = {name for name in ("sys", "site") if name in top.names}
        added = added_folders(tree, walk(tree), imported) if imported else ()
        return FileFacts(
            [each for each in self._scopes if each is not None],
            [each for each in self._classes if each is not None],
            self._scope_of,
            {name: value for name, value in top.names.items() if name in top.bound},
            self._imports,
            list(self._modules),
            self._stars,
            self._unbound,
            self._functions,
            self._copies,
            self._shared,
            self._boxed,
            self._unboxed,
            self._computed,
            self._loads,
            self._stores,
            self._keyed,
            self._keyed_reads,
            self._kept,
            self._calls,
            self._declared,
            list(self._used),
            list(self._trained),
            sorted(self._run),
            sorted(self._values_read),
            sorted(top.filled),
            list(added),
        )

    def file(self, tree: ast.Module) -> None:
        self._top = self._scope
        self._scopes.append(None)
        for statement in tree.body:  # those further down, too: functions above may use them
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                self._imported.update((each.asname or each.name).partition(".")[0] for each in statement.names)
        self._block(tree.body)
        self._finish(self._scope)
        self._scopes[0] = ScopeFacts("file", "", 1, -1, -1, [], [], (0, 0), 0, False, [], [])

    # ---- values and names ----

    def _new(self) -> int:
        self._scope_of.append(self._scope.number)
        return len(self._scope_of) - 1

    def _read(self, name: str) -> int:
        """The value of a name in the scope at hand."""
        names = self._scope.names
        value = names.get(name)
        if value is None:
            value = names[name] = self._new()
        return value

    def _bind(self, name: str, value: int) -> None:
        self._scope.bound.add(name)
        own = self._read(name)
        if value:
            self._copies.append((own, value))
            if self._scope.kind == "class":
                self._stores.append((0, name, value))

    def _finish(self, scope: _Scope) -> None:
        """Lead the names that a scope does not bind to the scope around it that does."""
        around = scope.around
        while around is not None and around.kind == "class":
            around = around.around
        for name, value in list(scope.names.items()):
            is_of_file = scope.outer.get(name)
            if is_of_file is None and name in scope.bound:
                continue
            target = self._top if is_of_file else around
            if target is None:
                self._unbound.append((name, value))
                continue
            here, self._scope = self._scope, target
            outer = self._read(name)
            if is_of_file is not None and name in scope.bound:
                target.bound.add(name)
                self._shared.append((outer, value))
            elif name in scope.filled:
                target.filled.add(name)
                self._shared.append((outer, value))
            self._scope = here
            self._shared.append((value, outer))

    def _value(self, node: ast.expr | None) -> int:
        """The value of an expression."""
        if node is None:
            return 0
        lower = self._expressions.get(node.__class__)
        return self._parts(node) if lower is None else lower(node)

    def _parts(self, node: ast.AST) -> int:
        """Lower what lies in an expression that has itself no value of interest."""
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.expr):
                self._value(each)
            else:
                self._parts(each)
        return 0

    def _one_of(self, values: Sequence[int]) -> int:
        found = dict.fromkeys(each for each in values if each)
        if len(found) <= 1:
            return next(iter(found), 0)
        out = self._new()
        self._copies.extend((out, each) for each in found)
        return out

    def _box(self, values: Sequence[int], whole: Sequence[int] = ()) -> int:
        if not any(values) and not any(whole):
            return 0
        out = self._new()
        self._boxed.extend((out, each) for each in values if each)
        self._copies.extend((out, each) for each in whole if each)
        return out

    def _unbox(self, container: int) -> int:
        if not container:
            return 0
        out = self._new()
        self._unboxed.append((out, container))
        return out

    # ---- expressions ----

    def _name(self, node: ast.Name) -> int:
        self._values_read.add(node.id)
        return self._read(node.id)

    def _attribute(self, node: ast.Attribute) -> int:
        return self._load(node, is_use=True)

    def _load(self, node: ast.Attribute, *, is_use: bool = False) -> int:
        names = [node.attr]
        held: ast.expr = node.value
        while isinstance(held, ast.Attribute):
            names.append(held.attr)
            held = held.value
        base = self._value(held)
        if not base:
            return 0
        if len(names) > 1 and not isinstance(held, ast.Name):  # only names of imports are read at once
            inner = self._new()
            self._loads.append((inner, base, ".".join(reversed(names[1:]))))
            base, names = inner, names[:1]
        if is_use and node.attr in USES_OF_MODULES:
            holder = base
            if len(names) > 1:
                holder = self._new()
                self._loads.append((holder, base, ".".join(reversed(names[1:]))))
                base, names = holder, names[:1]
            self._used[holder] = None
        out = self._new()
        self._loads.append((out, base, ".".join(reversed(names))))
        return out

    def _held(self, node: ast.expr) -> int:
        """The value of what is only looked into: `model.parameters[name]` does not use it as modules are used."""
        return self._load(node) if isinstance(node, ast.Attribute) else self._value(node)

    def _call(self, node: ast.Call) -> int:
        function = node.func
        is_returned = id(node) in self._only_returned
        holder = 0
        callee = 0
        name = ""
        if isinstance(function, ast.Attribute):
            name = function.attr
            if name in PLAIN_METHODS and not self._may_define(function.value):
                return self._plain_method(node, function)
            holder = self._held(function.value)
            if holder:
                if name in USES_OF_MODULES:
                    self._used[holder] = None
                if name == BACKWARD:
                    self._trained[holder] = None
                callee = self._new()
                self._loads.append((callee, holder, name))
        elif isinstance(function, ast.Name):
            name = function.id
            callee = self._read(name)
        else:
            callee = self._held(function)
        arguments, starred, keywords, packed = self._arguments(node, reads=name in _READING)
        if name == "getattr" and len(node.args) > 1 and isinstance(function, ast.Name):
            return self._get_attribute(node, arguments)
        if name == "setattr" and len(arguments) > 2 and isinstance(function, ast.Name):
            self._stores.append((arguments[0], _text(node.args[1]) or "*", arguments[2]))
        if not callee:
            return self._box(arguments)
        out = self._new()
        if holder and name in CONTAINER_METHODS and isinstance(function, ast.Attribute):
            positional = arguments[1:] if name in ("get", "pop", "setdefault", "insert") else arguments
            given = [each for each in (*positional, *starred, *packed, *(value for _, value in keywords)) if each]
            self._call_container(node, function, holder, given, out)
        self._calls.append(
            Call(out, callee, arguments, keywords, starred, packed, self._scope.number, node.lineno, is_returned, False)
        )
        return out

    def _arguments(
        self, node: ast.Call, *, reads: bool
    ) -> tuple[list[int], list[int], list[tuple[str, int]], list[int]]:
        """What a call passes by position, by `*`, by name and by `**`; `reads` where it only looks into attributes."""
        arguments: list[int] = []
        starred: list[int] = []
        keywords: list[tuple[str, int]] = []
        packed: list[int] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                starred.append(self._value(argument.value))
            else:
                value = self._held(argument) if reads else self._value(argument)
                (starred if starred else arguments).append(value)
        for keyword in node.keywords:
            value = self._value(keyword.value)
            if keyword.arg is None:
                packed.append(value)
            else:
                keywords.append((keyword.arg, value))
        return arguments, starred, keywords, packed

    def _call_container(
        self, node: ast.Call, function: ast.Attribute, holder: int, given: Sequence[int], out: int
    ) -> None:
        """Put something into a container, or take it out."""
        name = function.attr
        key = node.args[0] if node.args else None
        if name == "setdefault" and given and key is not None and _text(key):
            self._keyed.append((_text(key), given[0]))
        if name in PUTTING_METHODS and given:
            # What is put there, and what containers that are put there have in them.
            self._put(function.value, holder, given, is_each=name not in ("extend", "update", "extendleft"))
        self._unboxed.append((out, holder))
        self._copies.append((out, holder))
        if key is not None:
            self._note_keyed_read(function.value, key, out)
        if name in ("get", "pop", "setdefault"):
            self._copies.extend((out, each) for each in given)

    def _put(self, node: ast.expr, holder: int, given: Sequence[int], *, is_each: bool) -> None:
        (self._boxed if is_each else self._copies).extend((holder, each) for each in given)
        self._note_put(node, holder, given)

    def _note_put(self, node: ast.expr, holder: int, given: Sequence[int]) -> None:
        """Note that a container is filled which a name of a scope around, or an attribute, holds."""
        if isinstance(node, ast.Attribute):
            self._kept.extend((holder, node.attr, each) for each in given)
        elif isinstance(node, ast.Name):
            self._scope.filled.add(node.id)

    def _may_define(self, node: ast.expr) -> bool:
        """Whether an expression is the object at hand, a class or something imported, which may have any method."""
        if isinstance(node, ast.Call):
            return isinstance(node.func, ast.Name) and node.func.id == "super"
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name):
            return False
        return node.id in ("self", "cls") or node.id in self._imported or node.id[:1].isupper()

    def _plain_method(self, node: ast.Call, function: ast.Attribute) -> int:
        """A method of texts, tensors, files: what it gives is of the kind that its object is."""
        holder = self._held(function.value)
        for argument in node.args:
            self._value(argument)
        for keyword in node.keywords:
            self._value(keyword.value)
        return holder

    def _get_attribute(self, node: ast.Call, arguments: list[int]) -> int:
        if not arguments or not arguments[0]:
            return self._one_of(arguments[2:])
        out = self._new()
        name = _text(node.args[1])
        self._loads.append((out, arguments[0], name if name.isidentifier() else "*"))
        if name in USES_OF_MODULES:
            self._used[arguments[0]] = None
        self._copies.extend((out, each) for each in arguments[2:] if each)
        return out

    def _subscript(self, node: ast.Subscript) -> int:
        held = self._held(node.value)
        if not isinstance(node.slice, ast.Constant):
            self._value(node.slice)
        self._run.add("__getitem__")
        out = self._unbox(held)
        self._note_keyed_read(node.value, node.slice, out)
        return out

    def _note_keyed_read(self, container: ast.expr, key: ast.expr, out: int) -> None:
        """Note that something is read of what was passed by `**`."""
        if out and isinstance(container, ast.Name) and container.id == self._scope.packed and (name := _text(key)):
            self._keyed_reads.append((name, out))

    def _display(self, node: ast.Tuple | ast.List | ast.Set) -> int:
        values: list[int] = []
        whole: list[int] = []
        for each in node.elts:
            (whole if isinstance(each, ast.Starred) else values).append(self._value(each))
        return self._box(values, whole)

    def _dict(self, node: ast.Dict) -> int:
        values: list[int] = []
        whole: list[int] = []
        for key, value in zip(node.keys, node.values, strict=True):
            held = self._value(value)
            (whole if key is None else values).append(held)
            if held and key is not None and (name := _text(key)):
                self._keyed.append((name, held))
            if key is not None and not isinstance(key, ast.Constant):
                self._value(key)
        return self._box(values, whole)

    def _binary(self, node: ast.BinOp) -> int:
        left, right = self._value(node.left), self._value(node.right)
        name = _OPERATORS[node.op.__class__]
        self._run.update((f"__{name}__", f"__r{name}__"))
        if isinstance(node.op, _JOINING):
            return self._one_of((left, right))
        if not left and not right:
            return 0
        out = self._new()
        self._computed.extend((out, each) for each in (left, right) if each)
        return out

    def _unary(self, node: ast.UnaryOp) -> int:
        value = self._value(node.operand)
        if isinstance(node.op, ast.Not):
            return 0
        self._run.add(_UNARY[node.op.__class__])
        return value

    def _choice(self, node: ast.BoolOp) -> int:
        return self._one_of([self._value(each) for each in node.values])

    def _comparison(self, node: ast.Compare) -> int:
        for each in (node.left, *node.comparators):
            self._held(each)
        self._run.update(filter(None, (_COMPARISONS.get(each.__class__) for each in node.ops)))
        return 0

    def _conditional(self, node: ast.IfExp) -> int:
        self._value(node.test)
        return self._one_of((self._value(node.body), self._value(node.orelse)))

    def _inner_value(self, node: ast.Starred | ast.Await) -> int:
        if isinstance(node, ast.Await):
            self._run.add("__await__")
        return self._value(node.value)

    def _named_expression(self, node: ast.NamedExpr) -> int:
        value = self._value(node.value)
        self._target(node.target, value)
        return value

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> int:
        self._repeated += 1
        for each in node.generators:
            self._target(each.target, self._unbox(self._held(each.iter)))
            self._run.update(_ROUNDS)
            for test in each.ifs:
                self._value(test)
        if isinstance(node, ast.DictComp):
            self._value(node.key)
            values = [self._value(node.value)]
        else:
            values = [self._value(node.elt)]
        self._repeated -= 1
        return self._box(values)

    def _yield(self, node: ast.Yield) -> int:
        value = self._value(node.value)
        if value:
            self._boxed.append((self._result(), value))
        return self._new()  # what is sent

    def _yield_from(self, node: ast.YieldFrom) -> int:
        value = self._value(node.value)
        if value:
            self._copies.append((self._result(), value))
        return value

    def _result(self) -> int:
        if not self._scope.result:
            self._scope.result = self._new()
        return self._scope.result

    # ---- targets ----

    def _target(self, node: ast.expr, value: int) -> None:
        """Store a value."""
        if isinstance(node, ast.Name):
            self._bind(node.id, value)
        elif isinstance(node, ast.Attribute):
            base = self._held(node.value)
            if value:
                self._stores.append((base, node.attr, value))
        elif isinstance(node, ast.Subscript):
            base = self._held(node.value)
            self._value(node.slice)
            self._run.add("__setitem__")
            if value and base:
                self._boxed.append((base, value))
                self._note_put(node.value, base, [value])
                if name := _text(node.slice):
                    self._keyed.append((name, value))
        elif isinstance(node, (ast.Tuple, ast.List)):
            for each in node.elts:
                if isinstance(each, ast.Starred):
                    self._target(each.value, value)
                else:
                    self._target(each, self._unbox(value))
        elif isinstance(node, ast.Starred):
            self._target(node.value, value)

    # ---- statements ----

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for index, statement in enumerate(body):
            if (
                self._scope.is_top_function
                and statement.__class__ is ast.Assign
                and isinstance(statement.value, ast.Call)
                and not self._repeated
            ):
                self._note_named(statement, body[index + 1 :])
            lower = self._statements.get(statement.__class__)
            if lower is None:
                self._other(statement)
            else:
                lower(statement)

    def _note_named(self, statement: ast.Assign, behind: Sequence[ast.stmt]) -> None:
        """Note a call that gets a name, and is returned by it, whatever happens in between."""
        if len(statement.targets) != 1 or not isinstance(statement.targets[0], ast.Name):
            return
        name = statement.targets[0].id
        for each in behind:
            if _returns(each, name):
                self._scope.named.append(name)
                return
            if not isinstance(each, (ast.Assign, ast.Expr, ast.AnnAssign, ast.AugAssign)) and _may_leave(each):
                return

    def _other(self, statement: ast.stmt) -> None:
        if statement.__class__.__name__ == "Match":
            subject = self._value(statement.subject)  # type: ignore[attr-defined]
            for case in statement.cases:  # type: ignore[attr-defined]
                for each in walk(case.pattern):
                    name = getattr(each, "name", None) or getattr(each, "rest", None)
                    if isinstance(name, str):
                        self._bind(name, subject)
                        self._bind(name, self._unbox(subject))
                self._value(case.guard)
                self._block(case.body)
            return
        self._parts(statement)

    def _expression_statement(self, statement: ast.Expr) -> None:
        if not isinstance(statement.value, ast.Constant):
            self._value(statement.value)

    def _assign(self, statement: ast.Assign) -> None:
        value = self._value(statement.value) or self._empty(statement.value)
        for target in statement.targets:
            self._target(target, value)

    def _empty(self, node: ast.expr) -> int:
        """The value of a container that is made empty, or with plain things in it."""
        return self._new() if isinstance(node, DISPLAYS) else 0

    def _annotated(self, statement: ast.AnnAssign) -> None:
        value = self._value(statement.value)
        if statement.value is not None:
            value = value or self._empty(statement.value)
        self._target(statement.target, value)
        declared = self._classes_named(statement.annotation)
        if declared:
            self._declared.append((value or self._new(), declared))
            if isinstance(statement.target, ast.Name):
                self._declared.append((self._read(statement.target.id), declared))

    def _augmented(self, statement: ast.AugAssign) -> None:
        value = self._value(statement.value)
        name = _OPERATORS[statement.op.__class__]
        self._run.update((f"__i{name}__", f"__{name}__", f"__r{name}__"))
        if value:
            self._target(statement.target, value)
            if isinstance(statement.target, ast.Attribute):
                self._kept.append((self._load(statement.target), statement.target.attr, value))

    def _return(self, statement: ast.Return) -> None:
        node = statement.value
        if isinstance(node, ast.Call) and self._scope.is_top_function and not self._repeated:
            self._only_returned.add(id(node))
        value = self._value(node)
        if value:
            self._copies.append((self._result(), value))

    def _if(self, statement: ast.If) -> None:
        self._value(statement.test)
        self._block(statement.body)
        self._block(statement.orelse)

    def _while(self, statement: ast.While) -> None:
        self._repeated += 1
        self._if(statement)  # type: ignore[arg-type]
        self._repeated -= 1

    def _for(self, statement: ast.For | ast.AsyncFor) -> None:
        self._run.update(("__aiter__", "__anext__") if isinstance(statement, ast.AsyncFor) else _ROUNDS)
        self._target(statement.target, self._unbox(self._held(statement.iter)))
        self._repeated += 1
        self._block(statement.body)
        self._block(statement.orelse)
        self._repeated -= 1

    def _with(self, statement: ast.With | ast.AsyncWith) -> None:
        self._run.update(("__enter__", "__aenter__", "__exit__", "__aexit__"))
        for item in statement.items:
            value = self._value(item.context_expr)
            if item.optional_vars is not None:
                self._target(item.optional_vars, value)
                self._target(item.optional_vars, self._unbox(value))
        self._block(statement.body)

    def _try(self, statement: ast.Try) -> None:
        self._repeated += 1
        self._block(statement.body)
        for handler in statement.handlers:
            self._value(handler.type)
            if handler.name:
                self._bind(handler.name, 0)
            self._block(handler.body)
        self._block(statement.orelse)
        self._block(statement.finalbody)
        self._repeated -= 1

    def _global(self, statement: ast.Global | ast.Nonlocal) -> None:
        for name in statement.names:
            self._scope.outer[name] = isinstance(statement, ast.Global)

    def _import(self, statement: ast.Import) -> None:
        for each in statement.names:
            self._modules[each.name] = None
            name = each.asname or each.name.partition(".")[0]
            value = self._new()
            self._imports.append((value, each.name if each.asname else name))
            self._imported.add(name)
            self._bind(name, value)

    def _import_from(self, statement: ast.ImportFrom) -> None:
        module = "." * statement.level + (statement.module or "")
        self._modules[module] = None
        for each in statement.names:
            if each.name == "*":
                self._stars.append(module)
                continue
            target = f"{module}{each.name}" if module.endswith(".") else f"{module}.{each.name}"
            self._modules[target] = None
            value = self._new()
            self._imports.append((value, target))
            self._imported.add(each.asname or each.name)
            self._bind(each.asname or each.name, value)

    # ---- definitions ----

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        decorators = [self._value(each) for each in node.decorator_list]
        number = self._enter_function(node, "function", node.name, decorators)
        value = self._new()
        self._functions.append((value, number))
        is_changed = False
        for decorator, each in zip(reversed(decorators), reversed(node.decorator_list), strict=True):
            if _last_part(each) not in PLAIN_DECORATORS:
                is_changed = True
                value = self._decorate(decorator, value, each.lineno, decorates_class=False)
        self._scope.bound.add(node.name)
        self._copies.append((self._read(node.name), value))
        if self._scope.kind == "class" and is_changed:
            self._stores.append((0, node.name, value))

    def _decorate(self, decorator: int, value: int, line: int, *, decorates_class: bool) -> int:
        """What a decorator makes of something, or the thing itself."""
        if not decorator:
            return value
        out = self._new()
        self._copies.append((out, value))
        result = self._new()
        self._copies.append((out, result))
        self._calls.append(
            Call(result, decorator, [value], [], [], [], self._scope.number, line, False, decorates_class)
        )
        return out

    def _lambda(self, node: ast.Lambda) -> int:
        number = self._enter_function(node, "lambda", "<lambda>")
        value = self._new()
        self._functions.append((value, number))
        return value

    def _enter_function(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        kind: ScopeKind,
        name: str,
        decorated_by: Sequence[int] = (),
    ) -> int:
        """Lower a function; gives the number of its scope."""
        declared = node.args
        defaults = [self._value(each) for each in declared.defaults]
        named_defaults = [self._value(each) for each in declared.kw_defaults]
        around, repeated = self._scope, self._repeated
        number = len(self._scopes)
        self._scopes.append(None)
        scope = self._scope = _Scope(kind, number, around)
        scope.is_top_function = around.kind == "file" and isinstance(node, ast.FunctionDef)
        if scope.is_top_function and _is_generator(node):
            scope.is_top_function = False
        scope.class_number = around.class_number if around.kind == "class" else -1
        self._repeated = 0
        scope.packed = declared.kwarg.arg if declared.kwarg is not None else ""
        positional = positional_parameters(declared)
        parameters = [(each.arg, self._parameter(each)) for each in positional]
        named = [(each.arg, self._parameter(each)) for each in declared.kwonlyargs]
        rest = [0 if each is None else self._parameter(each) for each in (declared.vararg, declared.kwarg)]
        for (_, value), default in zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True):
            if default:
                self._copies.append((value, default))
        for (_, value), default in zip(named, named_defaults, strict=True):
            if default:
                self._copies.append((value, default))
        decorators: list[str] = []
        if isinstance(node, ast.Lambda):
            value = self._value(node.body)
            if value:
                self._copies.append((self._result(), value))
        else:
            decorators = [_last_part(each) for each in node.decorator_list]
            if node.returns is not None and (classes := self._classes_named(node.returns)):
                self._declared.append((self._result(), classes))
            mark = len(self._calls)
            self._block(node.body)
            if scope.named:
                self._settle_named(node, scope, mark)
        self._finish(scope)
        self._scope, self._repeated = around, repeated
        is_public = around.kind == "file" and kind == "function" and not name.startswith("_")
        self._scopes[number] = ScopeFacts(
            kind, name, node.lineno, around.number, scope.class_number, parameters, named, (rest[0], rest[1]),
            scope.result, is_public, decorators, list(decorated_by),
        )  # fmt: skip
        return number

    def _settle_named(self, node: ast.AST, scope: _Scope, mark: int) -> None:
        """Mark the calls whose names are read to be returned and nowhere else."""
        mentions: dict[str, int] = {}
        returned: dict[str, int] = {}
        for each in walk(node):
            if isinstance(each, ast.Name):
                mentions[each.id] = mentions.get(each.id, 0) + 1
            elif isinstance(each, (ast.Global, ast.Nonlocal)):
                mentions.update(dict.fromkeys(each.names, 1_000))
            elif isinstance(each, ast.arg):
                mentions[each.arg] = 1_000
            elif isinstance(each, ast.Return) and isinstance(each.value, ast.Name):
                returned[each.value.id] = returned.get(each.value.id, 0) + 1
        kept = {name for name in scope.named if mentions[name] == 1 + returned.get(name, 0)}
        outs = {scope.names[name] for name in kept if name in scope.names}
        sources = {source for target, source in self._copies if target in outs}
        for index in range(mark, len(self._calls)):
            call = self._calls[index]
            if call.out in sources and call.scope == scope.number:
                self._calls[index] = Call(
                    call.out, call.callee, call.arguments, call.keywords, call.starred, call.packed, call.scope,
                    call.line, True, call.decorates_class,
                )  # fmt: skip

    def _parameter(self, declared: ast.arg) -> int:
        self._scope.bound.add(declared.arg)
        value = self._read(declared.arg)
        if declared.annotation is not None and (classes := self._classes_named(declared.annotation)):
            self._declared.append((value, classes))
        return value

    def _classes_named(self, annotation: ast.expr) -> list[int]:
        """The values of the classes that an annotation names."""
        if isinstance(annotation, ast.Name) and annotation.id in _PLAIN_ANNOTATIONS:
            return []
        if isinstance(annotation, ast.Constant) and annotation.value in _PLAIN_ANNOTATIONS:
            return []
        names = [name for each in (annotation, *annotated_items(annotation)) for name in annotated_names(each)]
        kept = [each for each in names if _last_part(each) not in _PLAIN_ANNOTATIONS]
        return [value for each in kept if (value := self._held(each))]

    def _class(self, node: ast.ClassDef) -> None:
        decorators = [self._value(each) for each in node.decorator_list]
        bases = [self._value(each.value if isinstance(each, ast.Subscript) else each) for each in node.bases]
        for keyword in node.keywords:
            self._value(keyword.value)
        value = self._new()
        class_number = len(self._classes)
        self._classes.append(None)
        around, repeated = self._scope, self._repeated
        number = len(self._scopes)
        self._scopes.append(None)
        scope = self._scope = _Scope("class", number, around)
        scope.class_number = class_number
        self._repeated = 0
        first = len(self._scopes)
        self._block(node.body)
        self._finish(scope)
        self._scope, self._repeated = around, repeated
        self._scopes[number] = ScopeFacts(
            "class", node.name, node.lineno, around.number, class_number, [], [], (0, 0), 0, False, [], []
        )
        methods = {
            each.name: index
            for index, each in enumerate(self._scopes[first:], first)
            if each is not None and each.kind == "function" and each.parent == number
        }
        self._classes[class_number] = ClassFacts(node.name, node.lineno, value, bases, methods, around.number)
        for decorator, each in zip(reversed(decorators), reversed(node.decorator_list), strict=True):
            value = self._decorate(decorator, value, each.lineno, decorates_class=True)
        self._bind(node.name, value)


def _nothing(_: ast.AST) -> int:
    return 0


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _last_part(node: ast.expr) -> str:
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _returns(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Return) and isinstance(statement.value, ast.Name) and statement.value.id == name


def _may_leave(statement: ast.stmt) -> bool:
    """Whether something in a statement may skip what follows it."""
    return any(isinstance(each, (ast.Return, ast.Break, ast.Continue)) for each in walk(statement))


def _is_generator(function: ast.AST) -> bool:
    return any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in walk(function))
