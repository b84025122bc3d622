"""Programs made at random from the ways in which Python binds objects, each module in them worth a proxy.

A program starts with fixed classes and functions, adds some functions of its own, and goes on with random statements.
Conditions and the number of rounds are drawn when it runs, so that every seed of `random` takes other branches.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = """\
import contextlib
import copy
import functools
import random
from torch import nn


class Net(nn.Module):
    def __init__(self, part=None):
        super().__init__()
        self.body = nn.Linear(1, 1)
        self.part = part


class Other(Net):
    pass


class Holder:
    shared = None

    def __init__(self, net=None):
        self.net = net
        self.spare = None

    def give(self):
        return self.net

    def take(self, net):
        self.net = net
        return self

    def renew(self):
        self.net = Net()

    def swap(self):
        self.net, self.spare = self.spare, self.net

    @property
    def current(self):
        return self.net or self.spare


class Keeper:
    shared = None

    def __init__(self, net):
        self.net = net
        self.spare = self.last = None

    def give(self):
        return self.net

    def take(self, net):
        self.last = self.net
        self.net = net
        return self

    def renew(self):
        self.spare = Other()

    def swap(self):
        self.net, self.last = self.last or self.net, self.net

    @property
    def current(self):
        return self.net


class Base:
    def __init__(self):
        self.net = self.build()

    def build(self):
        return Net()


class Derived(Base):
    def build(self):
        return Other()


class Managed:
    def __init__(self, net):
        self.inner = net

    def __enter__(self):
        return self.inner

    def __exit__(self, *exc):
        return True


def chance():
    return random.random() < 0.5


def make():
    return Net()


def build(wide=False):
    model = Other() if wide else Net()
    return model


def same(module):
    return module


def pick(one, other):
    if chance():
        return one
    return other


def pair():
    return Net(), Other()


def first(module, *others):
    return module


def named(*, module=None, **others):
    return module if module is not None else others.get("other")


def nested(module, depth):
    if depth == 0:
        return module
    return nested(module, depth - 1)


def each(*modules):
    for module in modules:
        yield module


@contextlib.contextmanager
def lend(module):
    yield module


@functools.lru_cache
def cached():
    return Net()


def remembered(function):
    known = []

    def call():
        if not known:
            known.append(function())
        return known[0]

    return call


@remembered
def kept():
    return Net()


def put(modules, module):
    modules.append(module)
    return module


def fill(holder, module):
    holder.net = module


def use(*anything):
    pass


top = Net()
"""

MODULES = ("m1", "m2", "m3", "m4", "m5", "m6")
LISTS = ("xs", "ys", "zs")
DICTS = ("d", "e")
HOLDERS = ("h", "k", "g")
TUPLES = ("t", "s")
FUNCTIONS = ("f", "q")
KEYS = ('"a"', '"b"', '"c"')
ATTRIBUTES = ("net", "spare", "shared")


_KINDS = ("module", "list", "dict", "holder", "tuple", "function")


@dataclass
class Block:
    """What a block of statements may use: the names that are bound on every way to it.

    Attributes:
        bound: by kind of thing, the names of it.
        in_loop: whether `break` and `continue` may stand here.
        in_function: whether `return` may stand here.
        declared: the names that `global` or `nonlocal` declare here.
    """

    bound: dict[str, set[str]] = field(default_factory=lambda: {kind: set() for kind in _KINDS})
    in_loop: bool = False
    in_function: bool = False
    declared: set[str] = field(default_factory=set)

    def inner(self, **changes: bool) -> Block:
        """A block inside of this one."""
        bound = {kind: set(names) for kind, names in self.bound.items()}
        block = Block(bound, self.in_loop, self.in_function, self.declared)
        for name, change in changes.items():
            setattr(block, name, change)
        return block


class ProgramWriter:
    """Writes one random program."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lines: list[str] = []
        self._count = 0
        self._makers = ["Holder(?)", "Keeper(?)"]
        self._lenders = ["lend(?)", "Managed(?)"]

    def write(self) -> str:
        """The program's text."""
        block = Block()
        block.bound["module"].add("top")
        for number in range(self._random.choice((0, 0, 1, 1, 2))):
            self._function(number, block)
        self._statements(block, 0, self._random.randint(5, 10))
        for name in sorted(block.bound["module"]):
            self._add(0, f"use({name}.training)")
        return HEAD + "\n".join(self._lines) + "\n"

    # ---- pieces ----

    def _add(self, depth: int, line: str) -> None:
        self._lines.append("    " * depth + line)

    def _name(self, kind: str, block: Block) -> str:
        """A bound name of a kind; binds nothing."""
        return self._random.choice(sorted(block.bound[kind]))

    def _new(self, names: tuple[str, ...]) -> str:
        return self._random.choice(names)

    def _module(self, block: Block, depth: int = 0) -> str:
        """An expression that gives a module."""
        has = block.bound
        usual: list[Callable[[], str]] = [
            lambda: "Net()",
            lambda: "Other()",
            lambda: "make()",
            lambda: "build()",
            lambda: f"{self._name('module', block)}.train()",
            lambda: f"same({self._name('module', block)})",
            lambda: f"copy.deepcopy({self._name('module', block)})",
            lambda: f"Net({self._name('module', block)})",
        ]
        ways: list[Callable[[], str]] = [
            lambda: f"nested({self._name('module', block)}, 2)",
            lambda: f"named(module={self._name('module', block)})",
            lambda: f"named(other={self._name('module', block)})",
            lambda: "cached()",
            lambda: "kept()",
            lambda: f"functools.partial(same, {self._name('module', block)})()",
            lambda: f"(lambda module={self._name('module', block)}: module)()",
        ]
        if depth < 2:
            ways += [
                lambda: f"({self._module(block, depth + 1)} if chance() else {self._module(block, depth + 1)})",
                lambda: f"pick({self._module(block, depth + 1)}, {self._module(block, depth + 1)})",
                lambda: f"Net({self._module(block, depth + 1)})",
                lambda: f"(chance() and {self._module(block, 2)} or {self._module(block, 2)})",
                lambda: f"[{self._module(block, 2)}, {self._module(block, 2)}][{self._random.choice((0, 1, -1))}]",
                lambda: f"first({self._module(block, 2)}, {self._module(block, 2)})",
                lambda: f"nn.DataParallel({self._module(block, 2)}).module",
            ]
        if has["list"]:
            ways += [
                lambda: f"({self._name('list', block)} or [{self._module(block, 2)}])[0]",
                lambda: f"({self._name('list', block)} or [{self._module(block, 2)}])[-1]",
                lambda: f"first(*{self._name('list', block)}, {self._module(block, 2)})",
                lambda: f"first({self._module(block, 2)}, *{self._name('list', block)})",
                lambda: f"put({self._name('list', block)}, {self._module(block, 2)})",
                lambda: f"next(iter({self._name('list', block)}), None) or {self._module(block, 2)}",
            ]
        if has["dict"]:
            ways += [
                lambda: f"{self._name('dict', block)}.get({self._key()}, {self._name('module', block)})",
                lambda: f"{self._name('dict', block)}.setdefault({self._key()}, {self._module(block, 2)})",
                lambda: f"{self._name('dict', block)}.pop({self._key()}, {self._name('module', block)})",
            ]
        if has["holder"]:
            ways += [
                lambda: f"({self._name('holder', block)}.{self._attribute()} or {self._module(block, 2)})",
                lambda: f"({self._name('holder', block)}.give() or {self._module(block, 2)})",
                lambda: f"({self._name('holder', block)}.current or {self._module(block, 2)})",
                lambda: f"(getattr({self._name('holder', block)}, 'net') or {self._module(block, 2)})",
            ]
        if has["tuple"]:
            ways.append(lambda: f"{self._name('tuple', block)}[{self._random.choice((0, 1, -1))}]")
        if has["function"]:
            ways.append(lambda: f"{self._name('function', block)}()")
        if self._random.random() < 0.5:
            return self._name("module", block)
        return self._random.choice(usual if self._random.random() < 0.6 else ways)()

    def _key(self) -> str:
        return self._random.choice(KEYS)

    def _attribute(self) -> str:
        return self._random.choice(ATTRIBUTES)

    def _index(self) -> str:
        return self._random.choice(('"a"', '"b"', "random.choice('ab')"))

    # ---- statements ----

    def _statements(self, block: Block, depth: int, count: int) -> None:
        for _ in range(count):
            self._statement(block, depth)

    def _statement(self, block: Block, depth: int) -> None:
        simple = [self._bind_module] * 9 + [self._bind_container] * 3 + [self._change_container] * 2
        simple += [self._bind_holder, self._change_holder, self._change_holder, self._bind_function, self._unbind]
        compound = [self._if, self._if, self._for, self._while, self._try, self._with, self._match, self._closure]
        if depth < 2 and self._random.random() < 0.35:
            self._random.choice(compound)(block, depth)
        else:
            self._random.choice(simple)(block, depth)

    def _bind_module(self, block: Block, depth: int) -> None:
        name, other = self._random.sample(MODULES, 2)
        held = self._module(block)
        kind = self._random.randrange(12)
        modules = sorted(block.bound["module"] - {"top"})
        if kind == 0:
            self._add(depth, f"{name} = {other} = {held}")
            block.bound["module"] |= {name, other}
        elif kind == 1 and len(modules) > 1:
            one, two = self._random.sample(modules, 2)
            self._add(depth, f"{one}, {two} = {two}, {one}")
        elif kind == 2:
            self._add(depth, f"{name}, {other} = {held}, {self._module(block, 1)}")
            block.bound["module"] |= {name, other}
        elif kind == 3:
            self._add(depth, f"{name}, {other} = pair()")
            block.bound["module"] |= {name, other}
        elif kind == 4:
            self._add(depth, f"use(({name} := {held}))")
            block.bound["module"].add(name)
        elif kind == 5 and name not in block.declared:
            self._add(depth, f"{name}: nn.Module = {held}")
            block.bound["module"].add(name)
        elif kind == 6:
            self._add(depth, f"{name}, *{self._new(LISTS)} = [{held}, {self._module(block, 1)}]")
            block.bound["module"].add(name)
            block.bound["list"].add(self._lines[-1].split("*")[1].split()[0])
        elif kind == 7 and name in block.bound["module"]:
            self._add(depth, f"use(chance() and ({name} := {held}))")
        else:
            self._add(depth, f"{name} = {held}")
            block.bound["module"].add(name)

    def _bind_container(self, block: Block, depth: int) -> None:
        module = self._module
        kind = self._random.randrange(12)
        if kind < 4:
            name, lists = self._new(LISTS), sorted(block.bound["list"])
            texts = [f"[{module(block)}, {module(block)}]", f"[{module(block)}]", "[]", "[Net() for _ in range(2)]"]
            if lists:
                one, two = self._random.choice(lists), self._random.choice(lists)
                texts += [f"{one}", f"{one}[1:]", f"{one} + {two}", f"list({one})", f"[m for m in {one} if chance()]"]
                texts += [f"{one} + [{module(block)}]", f"[*{one}, {module(block)}]", f"{one}[:]", f"{one} * 2"]
                texts += [f"list(map(same, {one}))", f"list(reversed({one}))", f"{one}.copy()", f"copy.copy({one})"]
            self._add(depth, f"{name} = {self._random.choice(texts)}")
            block.bound["list"].add(name)
        elif kind < 8:
            name, dicts = self._new(DICTS), sorted(block.bound["dict"])
            texts = [f'{{"a": {module(block)}, "b": {module(block)}}}', "{}", f"dict(a={module(block)})"]
            if dicts:
                one = self._random.choice(dicts)
                texts += [one, f"dict({one})", f'{{**{one}, "a": {module(block)}}}', f"{one}.copy()"]
                texts += [f"{{key: module for key, module in {one}.items()}}"]
            self._add(depth, f"{name} = {self._random.choice(texts)}")
            block.bound["dict"].add(name)
        elif kind < 10 or not block.bound["tuple"]:
            name = self._new(TUPLES)
            self._add(depth, f"{name} = {module(block)}, {module(block)}")
            block.bound["tuple"].add(name)
        else:
            one, two = self._random.sample(MODULES, 2)
            self._add(depth, f"{one}, {two} = {self._name('tuple', block)}")
            block.bound["module"] |= {one, two}

    def _change_container(self, block: Block, depth: int) -> None:
        module = self._module(block, 1)
        texts: list[str] = []
        if block.bound["list"]:
            one, two = self._name("list", block), self._name("list", block)
            texts += [
                f"{one}.append({module})",
                f"{one}.append({module})",
                f"{one}.insert(0, {module})",
                f"{one} += [{module}]",
                f"{one}.reverse()",
                f"{one}.extend({two}[:2])",
                f"{one}[:1] = [{module}]",
                f"{one}[{self._random.choice(('0', '-1'))}:] = [{module}]",
                f"del {one}[:1]",
                f"random.shuffle({one})",
                f"{one}.clear()",
            ]
        if block.bound["dict"]:
            one = self._name("dict", block)
            texts += [f"{one}[{self._index()}] = {module}"] * 3
            texts += [f"{one}.update(a={module})", f"{one}.pop('a', None)", f"{one}.clear()"]
            texts.append(f'{one} |= {{"b": {module}}}')
        self._add(depth, self._random.choice(texts or ["pass"]))

    def _bind_holder(self, block: Block, depth: int) -> None:
        name = self._new(HOLDERS)
        # Real programs have one trainer; what its class keeps is told apart by attribute, not by instance.
        texts = [text for text in self._makers if self._random.random() < 0.9]
        if block.bound["holder"]:
            one = self._name("holder", block)
            texts += [one, f"{one}.take({self._module(block)})"]
        if not texts:
            self._add(depth, "pass")
            return
        text = self._random.choice(texts)
        if text in self._makers:
            self._makers.remove(text)
        self._add(depth, f"{name} = {text.replace('?', self._module(block))}")
        block.bound["holder"].add(name)

    def _change_holder(self, block: Block, depth: int) -> None:
        if not block.bound["holder"]:
            self._add(depth, f"m1 = {self._random.choice(('Base', 'Derived'))}().net")
            block.bound["module"].add("m1")
            return None
        one, two = self._name("holder", block), self._name("holder", block)
        texts = [
            f"{one}.{self._attribute()} = {self._module(block)}",
            f"{one}.{self._attribute()} = {self._module(block)}",
            f"{one}.take({self._module(block)})",
            f"{one}.renew()",
            f"{one}.swap()",
            f"{one}.net, {two}.spare = {two}.spare, {one}.net",
            f"Keeper.shared = {self._module(block)}",
            f"setattr({one}, random.choice(('net', 'spare')), {self._module(block)})",
            f"fill({one}, {self._module(block)})",
            f"{one}.net = {two}.net",
        ]
        return self._add(depth, self._random.choice(texts))

    def _bind_function(self, block: Block, depth: int) -> None:
        name = self._new(FUNCTIONS)
        module = self._name("module", block)
        texts = [f"lambda: {module}", "make", "build", f"functools.partial(same, {module})", "lambda: Net()", "cached"]
        texts += [f"lambda module={module}: module", f"functools.partial(pick, {module})"]
        text = self._random.choice(texts)
        self._add(depth, f"{name} = {text}")
        if "pick" in text:
            self._add(depth, f"{self._new(MODULES[:2])} = {name}({module})")
            block.bound["function"].discard(name)
        else:
            block.bound["function"].add(name)

    def _unbind(self, block: Block, depth: int) -> None:
        kind = self._random.choice(("module", "list", "dict", "holder", "tuple"))
        names = sorted(block.bound[kind] - {"top"})
        if not names or depth:
            self._add(depth, "pass")
            return
        name = self._random.choice(names)
        self._add(depth, f"del {name}")
        block.bound[kind].discard(name)
        block.bound["function"].clear()  # what closes over it would fail

    # ---- blocks ----

    def _body(self, block: Block, depth: int, **changes: bool) -> Block:
        inner = block.inner(**changes)
        count = self._random.randint(1, 4)
        self._statements(inner, depth + 1, count)
        if self._random.random() < 0.2 and (inner.in_loop or inner.in_function):
            words = ["break", "continue"] if inner.in_loop else []
            if inner.in_function:
                words.append(f"return {self._name('module', inner)}")
            self._add(depth + 1, "if chance():")
            self._add(depth + 2, self._random.choice(words))
        return inner

    def _keep(self, block: Block, *ways: Block) -> None:
        """Let what every way has bound be bound behind them."""
        for kind in _KINDS:
            block.bound[kind] = set.intersection(*(way.bound[kind] for way in ways))

    def _if(self, block: Block, depth: int) -> None:
        self._add(depth, "if chance():")
        body = self._body(block, depth)
        orelse = block.inner()
        if self._random.random() < 0.6:
            self._add(depth, "else:")
            orelse = self._body(block, depth)
        self._keep(block, body, orelse)

    def _for(self, block: Block, depth: int) -> None:
        target = self._new(MODULES)
        heads = ["for _ in range(random.randint(0, 3)):"]
        if target in block.bound["module"]:
            heads += [f"for {target} in ({self._module(block, 2)}, {self._module(block, 2)}):"]
            heads += [f"for {target} in each({self._module(block, 2)}):"]
            if block.bound["list"]:
                one = self._name("list", block)
                heads += [f"for {target} in {one}[:3]:", f"for _, {target} in enumerate({one}[:3]):"]
                heads += [f"for {target}, _ in zip({one}[:3], {one}[:2]):"]
            if block.bound["dict"]:
                heads.append(f"for _, {target} in list({self._name('dict', block)}.items()):")
        self._add(depth, self._random.choice(heads))
        body = self._body(block, depth, in_loop=True)
        if self._random.random() < 0.2:
            self._add(depth, "else:")
            self._body(block, depth)
        self._keep(block, body, block.inner())

    def _while(self, block: Block, depth: int) -> None:
        self._count += 1
        counter = f"n{self._count}"
        self._add(depth, f"{counter} = random.randint(0, 3)")
        self._add(depth, f"while ({counter} := {counter} - 1) >= 0:")
        body = self._body(block, depth, in_loop=True)
        self._keep(block, body, block.inner())

    def _try(self, block: Block, depth: int) -> None:
        self._add(depth, "try:")
        inner = block.inner()
        self._statements(inner, depth + 1, self._random.randint(1, 2))
        self._add(depth + 1, "if chance():")
        self._add(depth + 2, "raise ValueError")
        self._statements(inner, depth + 1, self._random.randint(1, 2))
        has_handler = self._random.random() < 0.8
        handler = block.inner()
        if has_handler:
            self._add(depth, "except ValueError:")
            handler = self._body(block, depth)
        if not has_handler or self._random.random() < 0.4:
            if not has_handler:
                self._add(depth, "except ValueError:")
                self._add(depth + 1, "pass")
            self._add(depth, "finally:")
            self._body(block, depth, in_loop=False, in_function=False)
        self._keep(block, inner, handler, block.inner())

    def _with(self, block: Block, depth: int) -> None:
        target = self._new(MODULES)
        if not self._lenders or self._random.random() < 0.5:
            self._add(depth, "with contextlib.suppress(ValueError):")
            inner = block.inner()
            self._statements(inner, depth + 1, 1)
            self._add(depth + 1, "if chance():")
            self._add(depth + 2, "raise ValueError")
            self._statements(inner, depth + 1, 1)
            self._keep(block, inner, block.inner())
        else:
            maker = self._lenders.pop(self._random.randrange(len(self._lenders)))
            self._add(depth, f"with {maker.replace('?', self._module(block, 1))} as {target}:")
            block.bound["module"].add(target)
            self._body(block, depth)

    def _match(self, block: Block, depth: int) -> None:
        one, two = self._random.sample(MODULES, 2)
        subject = f"[{self._module(block, 2)}, {self._module(block, 2)}]"
        self._add(depth, f"match random.choice(({subject}, {{'a': {self._module(block, 2)}}}, None)):")
        self._add(depth + 1, f"case [{one}, *_]:")
        body = block.inner()
        body.bound["module"].add(one)
        self._statements(body, depth + 2, 1)
        self._add(depth + 1, f"case {{'a': {two}}}:")
        other = block.inner()
        other.bound["module"].add(two)
        self._statements(other, depth + 2, 1)
        self._add(depth + 1, "case _:")
        rest = block.inner()
        self._statements(rest, depth + 2, 1)
        self._keep(block, body, other, rest)

    def _closure(self, block: Block, depth: int) -> None:
        """A function inside, which reads or rebinds what is around it, and some calls of it."""
        self._count += 1
        name = f"inner{self._count}"
        module = self._name("module", block)
        self._add(depth, f"def {name}(given={module}):")
        inner = Block(in_function=True)
        inner.bound["module"] = {"top", "given"}
        outside = sorted(block.bound["module"] - {"top", "given"} - block.declared)
        if outside and self._random.random() < 0.6:
            target = self._random.choice(outside)
            inner.declared.add(target)
            self._add(depth + 1, f"{'nonlocal' if block.in_function else 'global'} {target}")
            inner.bound["module"].add(target)
        self._statements(inner, depth + 1, self._random.randint(1, 3))
        self._add(depth + 1, f"return {self._name('module', inner)}")
        for _ in range(self._random.randint(1, 2)):
            target = self._new(MODULES)
            self._add(depth, f"{target} = {name}({self._random.choice(('', self._name('module', block)))})")
            block.bound["module"].add(target)

    def _function(self, number: int, block: Block) -> None:
        """A function at the top, with a call."""
        name = f"task{number}"
        self._add(0, f"def {name}(given, xs=None):")
        inner = Block(in_function=True)
        inner.bound["module"] = {"given", "top"}
        if self._random.random() < 0.4:
            self._add(1, "global m6")
            self._add(1, "m6 = given")
            inner.declared.add("m6")
            inner.bound["module"].add("m6")
        self._add(1, "xs = [given] if xs is None else xs")
        inner.bound["list"].add("xs")
        self._statements(inner, 1, self._random.randint(2, 6))
        self._add(1, f"return {self._name('module', inner)}")
        for _ in range(self._random.randint(1, 2)):
            target = self._new(MODULES[:5])
            self._add(0, f"{target} = {name}({self._module(block)})")
            block.bound["module"].add(target)


def write_program(seed: int) -> str:
    """The program of a seed."""
    return ProgramWriter(seed).write()
