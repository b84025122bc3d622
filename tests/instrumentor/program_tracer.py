"""Runs a program and records which object every binding in it held."""

from __future__ import annotations

import ast
import builtins
import contextlib
import random
import re
import sys
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from instrumentor import emit
from instrumentor.analysis.spelling import text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_BIND, _WALRUS, _ENTER = "_bind", "_walrus", "_enter"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Event:
    """One store.

    Attributes:
        place: the line and the target as the program spells it.
        thing: which object was stored, by the order in which objects are met.
        function: the line of the function around it; 0 at the top.
        call: which call of that function.
        rounds: the loops around it in that function, each with the round it is in, from the outermost inwards.
    """

    place: tuple[int, str]
    thing: int
    function: int
    call: int
    rounds: tuple[tuple[int, int], ...]


@dataclass
class Recording:
    """What one run did.

    Attributes:
        events: every store of a module.
        proxied: the objects that each line puts under a proxy.
        things: the objects, by their number.
        error: the exception that ended it.
    """

    events: list[Event]
    proxied: dict[int, set[int]]
    things: list[Any]
    error: str


class _Insert(ast.NodeTransformer):
    """Puts calls of the recorder into a tree, on the lines that are there."""

    def __init__(self, added: set[int]) -> None:
        self._added = added
        self._function = 0
        self._loops: list[int] = []
        self._count = 0

    def visit_Module(self, node: ast.Module) -> ast.Module:
        node.body = [_parse("_call = 0"), *self._block(node.body)]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        outer = self._function, self._loops
        node.args.defaults = [self.visit(each) for each in node.args.defaults]
        self._function, self._loops = node.lineno, []
        declarations = [each for each in node.body if isinstance(each, (ast.Global, ast.Nonlocal))]
        rest = [each for each in node.body if each not in declarations]
        node.body = [*declarations, _parse(f"_call = {_ENTER}()"), *self._block(rest)]
        self._function, self._loops = outer
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.body = [self.visit(each) if isinstance(each, _SCOPES) else each for each in node.body]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        self.generic_visit(node)
        call = _parse(f"{_WALRUS}({self._where(node.lineno, node.target.id)}, 0)").value  # type: ignore[attr-defined]
        call.args[-1] = node
        return call  # type: ignore[no-any-return]

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [each for statement in statements for each in self._statement(statement)]

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, (ast.For, ast.While)):
            return self._loop(node)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            return [self.visit(node)]
        for name, value in ast.iter_fields(node):
            if name in {"body", "orelse", "finalbody"} and isinstance(value, list):
                setattr(node, name, self._block(value))
            elif name in {"handlers", "cases"}:
                for each in value:
                    each.body = self._block(each.body)
            elif isinstance(value, ast.AST):
                setattr(node, name, self.visit(value))
        if isinstance(node, ast.Assign):
            return [node, *self._binds(node.lineno, node.targets), *self._elements(node)]
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            return [node, *self._binds(node.lineno, [node.target])]
        if isinstance(node, ast.With):
            targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
            node.body = [*self._binds(node.lineno, targets), *node.body]
        return [node]

    def _loop(self, node: ast.For | ast.While) -> list[ast.stmt]:
        self._count += 1
        counter, loop = f"_round{self._count}", self._count
        if isinstance(node, ast.For):
            node.iter = self.visit(node.iter)
            orelse = self._block(node.orelse)
        else:
            orelse = self._block(node.orelse)
        self._loops.append(loop)
        if isinstance(node, ast.While):
            node.test = self.visit(node.test)
        targets = [node.target] if isinstance(node, ast.For) else []
        body = self._block(node.body)
        node.body = [_parse(f"{counter} += 1"), *self._binds(node.lineno, targets), *body]
        self._loops.pop()
        node.orelse = orelse
        return [_parse(f"{counter} = 0"), node]

    def _binds(self, line: int, targets: list[ast.expr]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for target in targets if line not in self._added else ():
            if isinstance(target, (ast.Tuple, ast.List)):
                found += self._binds(line, target.elts)
            elif not isinstance(target, ast.Starred) and not _is_moving(target):
                found.append(_parse(f"{_BIND}({self._where(line, text_of(target))}, {ast.unparse(target)})"))
        return found

    def _elements(self, node: ast.Assign) -> list[ast.stmt]:
        """The elements of a displayed dict, which are bound to its keys."""
        if not isinstance(node.value, ast.Dict) or not isinstance(node.targets[0], ast.Name):
            return []
        holder = node.targets[0].id
        texts = [f"{holder}[{text_of(key)}]" for key in node.value.keys if isinstance(key, ast.Constant)]
        return [_parse(f"{_BIND}({self._where(node.lineno, text)}, {text})") for text in texts]

    def _where(self, line: int, text: str) -> str:
        rounds = "".join(f"({loop}, _round{loop})," for loop in self._loops)
        return f"({line}, {text!r}, {self._function}, _call, ({rounds}))"


def _is_moving(target: ast.expr) -> bool:
    """Whether reading a target again may find another object than was stored."""
    index = target.slice if isinstance(target, ast.Subscript) else None
    return index is not None and not isinstance(index, ast.Constant)


def _parse(text: str) -> ast.stmt:
    return ast.parse(text).body[0]


class _Chances(random.Random):
    """What a run draws; each place in the program that asks `chance()` leans one way, the other, or neither.

    Leanings drawn for each run take the program through combinations of branches that even chances hardly ever meet.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._leanings: dict[int, float] = {}
        self.randint(0, 1)  # the first draws of neighbouring seeds are much alike

    def __getattr__(self, name: str) -> Any:
        return getattr(random, name)  # for other modules that import `random` meanwhile

    def random(self) -> float:
        drawn = super().random()
        asked = sys._getframe(1)
        if asked.f_code.co_name != "chance" or asked.f_back is None:
            return drawn
        line = asked.f_back.f_lineno
        if line not in self._leanings:
            self._leanings[line] = super().choice((0.0, 0.5, 1.0))
        # `chance` is true below one half.
        leaning = self._leanings[line]
        return drawn if leaning == 0.5 else leaning * 0.75


class _Recorder:
    def __init__(self, original_line: Callable[[int], int]) -> None:
        self._original_line = original_line
        self._numbers: dict[int, int] = {}
        self._calls = 0
        self.recording = Recording([], {}, [], "")

    def number(self, thing: Any) -> int:
        if id(thing) not in self._numbers:
            self._numbers[id(thing)] = len(self.recording.things)
            self.recording.things.append(thing)  # which keeps its id from being used again
        return self._numbers[id(thing)]

    def bind(self, where: tuple[int, str, int, int, Any], thing: Any) -> Any:
        from torch import nn

        if isinstance(thing, nn.Module):
            line, text, function, call, rounds = where
            place = self._original_line(line), text
            self.recording.events.append(Event(place, self.number(thing), function, call, rounds))
        return thing

    def enter(self) -> int:
        self._calls += 1
        return self._calls

    def proxy(self, thing: Any, **_: Any) -> Any:
        from torch import nn

        line = self._original_line(sys._getframe(1).f_lineno)
        if isinstance(thing, nn.Module):
            self.recording.proxied.setdefault(line, set()).add(self.number(thing))
        return thing


class TracedProgram:
    """An instrumented program, or one without any proxy, ready to be run and recorded."""

    def __init__(self, source: str) -> None:
        self._added = _added_lines(source)
        tree = ast.fix_missing_locations(_Insert(self._added).visit(ast.parse(source)))
        self._code = compile(tree, "program.py", "exec")

    def run(self, seed: int) -> Recording:
        """Run it with a seed for what it leaves to chance."""
        recorder = _Recorder(lambda line: line - sum(each <= line for each in self._added))
        names = {
            "__name__": "__main__",
            "__builtins__": builtins,
            _BIND: recorder.bind,
            _WALRUS: recorder.bind,
            _ENTER: recorder.enter,
        }
        with _modules_replaced(recorder, _Chances(seed)):
            try:
                exec(self._code, names)
            except Exception as error:  # noqa: BLE001 - what a random program does wrong is its own business
                recorder.recording.error = f"{type(error).__name__}: {error}"
        return recorder.recording


@contextlib.contextmanager
def _modules_replaced(recorder: _Recorder, chances: _Chances) -> Iterator[None]:
    """The recorder in place of the runtime that instrumented programs import, and chances in place of `random`."""
    stub = types.ModuleType(emit.RUNTIME_MODULE)
    stub.__dict__.update({emit.PROXY: recorder.proxy, **dict.fromkeys(emit.LOG_LEVELS)})
    package = types.ModuleType(emit.RUNTIME_MODULE.partition(".")[0])
    package.__dict__[emit.RUNTIME_MODULE.rpartition(".")[2]] = stub
    replacements: dict[str, Any] = {package.__name__: package, emit.RUNTIME_MODULE: stub, "random": chances}
    hidden = {name: sys.modules.get(name) for name in replacements}
    sys.modules.update(replacements)
    try:
        yield
    finally:
        for name, module in hidden.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def _added_lines(source: str) -> set[int]:
    last = source.rstrip("\n").rpartition("\n")[2]
    found = emit.SOURCE_COMMENT.fullmatch(last)
    return {int(number) for number in re.findall(r"\+(\d+)", found["added"])} if found else set()
