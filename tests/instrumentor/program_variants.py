"""Other ways to write a program that do the same: other statements in place of one, other code around one or all."""

from __future__ import annotations

import ast
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_HIDING = (ast.Global, ast.Nonlocal, ast.Await)
# What in a statement ties it to the function, or the loop, that it stands in.
_TIES = (ast.Yield, ast.YieldFrom, ast.Await, ast.Return, ast.Break, ast.Continue, ast.NamedExpr, ast.Lambda)
_LOOKING_AROUND = frozenset({"super", "globals", "vars", "locals", "exec", "eval", "__name__"})

_DECORATE = """
import functools
def decorate(function):
    @functools.wraps(function)
    def inner(*arguments, **keywords):
        return function(*arguments, **keywords)
    return inner"""

# How `TARGET = VALUE` can be written, where the value is a call.
STATEMENTS = {
    "annotation": "TARGET: object = VALUE",
    "chained targets": "kept = TARGET = VALUE",
    "walrus": "(TARGET := VALUE)",
    "list target": "[TARGET] = [VALUE]",
    "tuple target": "TARGET, other = VALUE, None",
    "starred target": "TARGET, *rest = [VALUE for _ in range(1)]",
    "swap": "kept, TARGET = VALUE, None\nTARGET, kept = kept, TARGET",
    "temporary name": "kept = VALUE\nTARGET = kept\ndel kept",
    "conditional expression": "TARGET = VALUE if len([1]) else None",
    "or": "TARGET = None or VALUE",
    "if": """
if len([1]):
    TARGET = VALUE
else:
    TARGET = None
""",
    "for": "for TARGET in [VALUE]:\n    pass",
    "zip": "for TARGET, _ in zip([VALUE], [0]):\n    pass",
    "items": "for _, TARGET in {'a': VALUE}.items():\n    pass",
    "while": "while True:\n    TARGET = VALUE\n    break",
    "try": """
try:
    TARGET = VALUE
except ImportError:
    TARGET = None
""",
    "try and else": """
try:
    kept = VALUE
except ImportError:
    raise
else:
    TARGET = kept
finally:
    pass
""",
    "match": "match VALUE:\n    case TARGET:\n        pass",
    "context": """
import contextlib
@contextlib.contextmanager
def keep(held):
    yield held
with keep(VALUE) as TARGET:
    pass
""",
    "context class": """
class Context:
    def __enter__(self):
        self.held = VALUE
        return self.held
    def __exit__(self, *error):
        return None
with Context() as TARGET:
    pass
""",
    "element": "TARGET = [VALUE][0]",
    "last element": "held = []\nheld.append(VALUE)\nTARGET = held.pop()",
    "key": "held = {}\nheld['k'] = VALUE\nTARGET = held['k']",
    "get": "held = dict(k=VALUE)\nTARGET = held.get('k')",
    "setdefault": "held = {}\nTARGET = held.setdefault('k', VALUE)",
    "comprehension": "TARGET = [VALUE for _ in range(1)][0]",
    "next": "TARGET = next(iter([VALUE]))",
    "deque": """
import collections
held = collections.deque()
held.append(VALUE)
TARGET = held.popleft()
""",
    "queue": """
import queue
held = queue.Queue()
held.put(VALUE)
TARGET = held.get()
""",
    "namespace": """
import types
held = types.SimpleNamespace()
held.model = VALUE
TARGET = held.model
""",
    "named tuple": """
import collections
Held = collections.namedtuple('Held', 'model step')
TARGET, _ = Held(VALUE, 0)
""",
    "dataclass": """
import dataclasses
@dataclasses.dataclass
class State:
    model: object
    step: int = 0
held = State(VALUE)
TARGET = held.model
""",
    "attribute": """
class Holder:
    def __init__(self, model):
        self.model = model
held = Holder(VALUE)
TARGET = held.model
""",
    "property": """
class Holder:
    def __init__(self, model):
        self._model = model
    @property
    def model(self):
        return self._model
TARGET = Holder(VALUE).model
""",
    "cached property": """
import functools
class Holder:
    @functools.cached_property
    def model(self):
        return VALUE
TARGET = Holder().model
""",
    "setattr": """
class Holder:
    pass
held = Holder()
setattr(held, 'model', VALUE)
TARGET = getattr(held, 'model')
""",
    "__dict__": """
class Holder:
    pass
held = Holder()
held.__dict__.update(model=VALUE)
TARGET = held.model
""",
    "class attribute": """
class Holder:
    model = None
Holder.model = VALUE
TARGET = Holder.model
""",
    "lambda": "TARGET = (lambda: VALUE)()",
    "function": """
def make():
    made = VALUE
    return made
TARGET = make()
""",
    "function with a condition": """
def make(flag=True):
    if flag:
        return VALUE
    return None
TARGET = make()
""",
    "function of a tuple": """
def make():
    made = VALUE
    return made, 1
TARGET, _ = make()
""",
    "function of a dict": "def make():\n    return {'model': VALUE, 'step': 0}\nTARGET = make()['model']",
    "identity function": "def same(held):\n    return held\nTARGET = same(VALUE)",
    "arguments": "def keep(*held):\n    return held\nTARGET = keep(VALUE)[0]",
    "keywords": "def keep(**held):\n    return held\nTARGET = keep(model=VALUE)['model']",
    "default": "def keep(held=VALUE):\n    return held\nTARGET = keep()",
    "callback": "def run(function):\n    return function()\nTARGET = run(lambda: VALUE)",
    "closure": """
def factory():
    def build():
        return VALUE
    return build
TARGET = factory()()
""",
    "nonlocal": """
def outer():
    held = None
    def fill():
        nonlocal held
        held = VALUE
    fill()
    return held
TARGET = outer()
""",
    "retry": """
def make():
    for _ in range(3):
        try:
            return VALUE
        except MemoryError:
            continue
    raise RuntimeError
TARGET = make()
""",
    "generator": "def generate():\n    yield VALUE\nTARGET = next(generate())",
    "delegating generator": """
def generate():
    yield VALUE
def delegate():
    yield from generate()
TARGET = list(delegate())[0]
""",
    "coroutine": """
import asyncio
async def make():
    return VALUE
TARGET = asyncio.run(make())
""",
    "thread": """
import concurrent.futures
def make():
    return VALUE
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    TARGET = pool.submit(make).result()
""",
    "map": "def make(_):\n    return VALUE\nTARGET = list(map(make, [0]))[0]",
    "partial": """
import functools
def make():
    return VALUE
TARGET = functools.partial(make)()
""",
    "cache": """
import functools
@functools.lru_cache(maxsize=None)
def make():
    return VALUE
TARGET = make()
""",
    "decorator": f"""{_DECORATE}
@decorate
def make():
    return VALUE
TARGET = make()
""",
    "registry": """
REGISTRY = {}
def register(function):
    REGISTRY[function.__name__] = function
    return function
@register
def make():
    return VALUE
TARGET = REGISTRY['make']()
""",
    "dispatch": """
import functools
@functools.singledispatch
def make(kind):
    return None
@make.register
def _(kind: int):
    return VALUE
TARGET = make(1)
""",
    "static method": """
class Factory:
    @staticmethod
    def make():
        return VALUE
TARGET = Factory.make()
""",
    "class method": """
class Factory:
    @classmethod
    def make(cls):
        return VALUE
TARGET = Factory.make()
""",
    "callable": """
class Factory:
    def __call__(self):
        return VALUE
TARGET = Factory()()
""",
    "__new__": """
class Factory:
    def __new__(cls):
        return VALUE
TARGET = Factory()
""",
    "__getitem__": """
class Factory:
    def __getitem__(self, key):
        return VALUE
TARGET = Factory()['a']
""",
    "singleton": """
class Singleton:
    one = None
    @classmethod
    def get(cls):
        if cls.one is None:
            cls.one = VALUE
        return cls.one
TARGET = Singleton.get()
""",
    "template method": """
class Base:
    def __init__(self):
        self.model = self.make()
    def make(self):
        raise NotImplementedError
class Derived(Base):
    def make(self):
        return VALUE
TARGET = Derived().model
""",
    "exception": """
class Found(Exception):
    pass
try:
    raise Found(VALUE)
except Found as found:
    TARGET = found.args[0]
""",
}

# How a statement can be written that only uses what names hold: `names` are those names, `first` the first of them.
USES = {
    "if": "if len([1]):\n    BODY",
    "try": "try:\n    BODY\nexcept KeyboardInterrupt:\n    raise",
    "function": "def act({names}):\n    BODY\nact({names})",
    "function of keywords": "def act(*, {names}):\n    BODY\nact({keywords})",
    "function of a list": "def act({names}):\n    BODY\nact(*[{names}])",
    "function of a tuple": "def act(held):\n    {names}, = held\n    BODY\nact(({names},))",
    "function that gives back": "def act({names}):\n    BODY\n    return {first}\n{first} = act({names})",
    "function that gives all back": "def act({names}):\n    BODY\n    return {names},\n{names}, = act({names})",
    "callback": "def run(function):\n    return function()\ndef act():\n    BODY\nrun(act)",
    "partial": "import functools\ndef act({names}):\n    BODY\nfunctools.partial(act, {names})()",
    "coroutine": "import asyncio\nasync def act({names}):\n    BODY\nasyncio.run(act({names}))",
    "generator": "def act({names}):\n    yield\n    BODY\nfor _ in act({names}):\n    pass",
    "function in a function": """
def act({names}):
    BODY
def outer({names}):
    act({names})
outer({names})
""",
    "decorator": f"""{_DECORATE}
@decorate
def act({{names}}):
    BODY
act({{names}})
""",
    "thread": """
import threading
def act({names}):
    BODY
thread = threading.Thread(target=act, args=({names},))
thread.start()
thread.join()
""",
}

# What can stand around a program; what it leaves in ALL_MODELS has to come out.
PROGRAMS = {
    "if": "if __name__ == '__main__':\n    BODY",
    "try": """
try:
    BODY
except KeyboardInterrupt:
    raise
finally:
    pass
""",
    "with": "import contextlib\nwith contextlib.suppress(ZeroDivisionError):\n    BODY",
    "for": "for repetition in range(1):\n    BODY",
    "function": """
def main():
    BODY
    return ALL_MODELS
if __name__ == '__main__':
    ALL_MODELS = main()
""",
    "function called twice": """
def main(seed):
    BODY
    return ALL_MODELS
ALL_MODELS = [model for seed in (0, 1) for model in main(seed)]
""",
    "function handed over": """
def launch(function, *arguments):
    try:
        return function(*arguments)
    finally:
        pass
def main():
    BODY
    return ALL_MODELS
ALL_MODELS = launch(main)
""",
    "decorated function": f"""{_DECORATE}
@decorate
def main():
    BODY
    return ALL_MODELS
ALL_MODELS = main()
""",
    "generator": """
def main():
    BODY
    yield ALL_MODELS
for ALL_MODELS in main():
    pass
""",
    "coroutine": """
import asyncio
async def main():
    BODY
    return ALL_MODELS
ALL_MODELS = asyncio.run(main())
""",
    "thread": """
import threading
found = []
def main():
    BODY
    found.extend(ALL_MODELS)
thread = threading.Thread(target=main)
thread.start()
thread.join()
ALL_MODELS = list(found)
""",
    "method": """
class Base:
    def run(self):
        self.models = self.train()
        return self.models
class Experiment(Base):
    def train(self):
        BODY
        return ALL_MODELS
ALL_MODELS = Experiment().run()
""",
}
# Which leave it where its names are the file's.
_AT_THE_TOP = frozenset({"if", "try", "with", "for"})


def variants(source: str) -> Iterator[tuple[str, Callable[[], str]]]:
    """The other ways to write a program: what is written how, and what writes it."""
    tree = ast.parse(source)
    for number, statement in enumerate(_replaceable(tree)):
        for name, template in STATEMENTS.items():
            text = f"line {statement.lineno}: {name}"
            yield text, partial(_with_statement, tree, number, template)
    for number, use in enumerate(_movable(tree)):
        for name, template in USES.items():
            yield f"line {use.lineno}: {name} around it", partial(_with_use, tree, number, template)
    for name, template in PROGRAMS.items():
        if name in _AT_THE_TOP or _is_movable(tree):
            yield f"all: {name}", partial(_with_program, tree, template)


def _replaceable(tree: ast.Module) -> list[ast.Assign]:
    """The assignments of a call's result to one name, those in classes aside."""
    found: list[ast.Assign] = []
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            is_one_name = len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)
            is_of_now = not any(isinstance(each, (ast.Await, ast.Yield, ast.NamedExpr)) for each in ast.walk(node))
            if is_one_name and is_of_now:
                found.append(node)
        elif not isinstance(node, ast.ClassDef):
            pending.extend(ast.iter_child_nodes(node))
    return found


def _movable(tree: ast.Module) -> list[ast.stmt]:
    """The calls and loops that do the same in a function that is passed what they read, those in classes aside."""
    found: list[ast.stmt] = []
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop(0)
        if isinstance(node, (ast.Expr, ast.For)) and not isinstance(getattr(node, "value", None), ast.Constant):
            parts = list(ast.walk(node))
            is_tied = any(isinstance(each, (*_TIES, *_FUNCTIONS, ast.ClassDef)) for each in parts)
            names = {each.id for each in parts if isinstance(each, ast.Name)}
            # What a loop binds may be used behind it only if it is bound anew.
            outside = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and each not in parts}
            is_closed = _stored(node).isdisjoint(outside)
            if is_closed and not is_tied and names.isdisjoint(_LOOKING_AROUND) and _read(tree, node):
                found.append(node)
                continue
        if not isinstance(node, ast.ClassDef):
            pending.extend(ast.iter_child_nodes(node))
    return found


def _stored(node: ast.AST) -> set[str]:
    """The names that a piece of a program binds, as parameters too."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return names | {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}


def _read(tree: ast.Module, node: ast.AST) -> list[str]:
    """The program's variables that a statement reads."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    return sorted(names & _stored(tree) - _stored(node))


def _is_movable(tree: ast.Module) -> bool:
    """Whether a program does the same as part of a function."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    stars = [node for node in ast.walk(tree) if isinstance(node, ast.alias) and node.name == "*"]
    if stars or names & (_LOOKING_AROUND - {"super"}) or "asyncio" in ast.unparse(tree):
        return False
    return not any(isinstance(node, _HIDING) for node in ast.walk(tree))


def _with_statement(tree: ast.Module, number: int, template: str) -> str:
    changed = deepcopy(tree)
    statement = _replaceable(changed)[number]
    target = statement.targets[0]
    assert isinstance(target, ast.Name)
    written = _Fill(target.id, statement.value).visit(ast.parse(template))
    return _text(_Replace(statement, written.body).visit(changed))


def _with_use(tree: ast.Module, number: int, template: str) -> str:
    changed = deepcopy(tree)
    statement = _movable(changed)[number]
    names = _read(changed, statement)
    keywords = ", ".join(f"{name}={name}" for name in names)
    around = ast.parse(template.format(names=", ".join(names), first=names[0], keywords=keywords))
    written = _Replace(_body_of(around), [deepcopy(statement)]).visit(around)
    return _text(_Replace(statement, written.body).visit(changed))


def _with_program(tree: ast.Module, template: str) -> str:
    changed = deepcopy(tree)
    futures = [each for each in changed.body if isinstance(each, ast.ImportFrom) and each.module == "__future__"]
    body = [each for each in changed.body if each not in futures]
    around = ast.parse(template)
    moved = _Replace(_body_of(around), body).visit(around)
    moved.body[:0] = futures
    return _text(moved)


def _text(tree: ast.Module) -> str:
    return ast.unparse(ast.fix_missing_locations(tree))


def _body_of(around: ast.Module) -> ast.Expr:
    """Where a template has its BODY."""
    expressions = (node for node in ast.walk(around) if isinstance(node, ast.Expr))
    return next(each for each in expressions if isinstance(each.value, ast.Name) and each.value.id == "BODY")


class _Fill(ast.NodeTransformer):
    """Puts a statement's target and value into a template."""

    def __init__(self, target: str, value: ast.expr) -> None:
        self._target = target
        self._value = value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == "VALUE":
            return deepcopy(self._value)
        return ast.Name(self._target, node.ctx) if node.id == "TARGET" else node

    def visit_MatchAs(self, node: ast.MatchAs) -> ast.MatchAs:
        node.name = self._target
        return node


class _Replace(ast.NodeTransformer):
    """Puts statements in the place of one."""

    def __init__(self, old: ast.stmt, new: list[ast.stmt]) -> None:
        self._old = old
        self._new = new

    def visit(self, node: ast.AST) -> Any:
        return self._new if node is self._old else self.generic_visit(node)
