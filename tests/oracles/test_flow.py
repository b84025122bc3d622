"""Flow steps of generated functions against the arcs of `coverage` and a plain count, and of each form of the grammar.

Everything runs twice: as it is, and in `Proxy.trace(model, flow=True)`, where it must give the same tensors.
"""

from __future__ import annotations

import ast
import importlib.util
import random
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch
from torch import nn

import proxy_wrapper.proxy as Proxy
from tests.proxy_wrapper.flow.random_functions import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from proxy_trace.flow.flow_steps import FlowStep

_MODEL = """
from torch import nn
class Model(nn.Module):
    def forward(self, test, items):
        return list(function(test, items))
"""


class Drawn:
    """Gives tests and loops on tensors, and counts them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.state = torch.zeros(3)
        self.tests: list[int] = []
        self.loops: list[tuple[int, int]] = []

    def test(self, number: int) -> torch.Tensor:
        """A tensor whose truth is drawn now, by way of a computation."""
        self.tests.append(number)
        self.state = self.state * 0.5 + self._random.random() * number
        return self.state.sum() > self.state.sum() + self._random.choice((-1.0, 1.0))

    def items(self, number: int) -> Iterator[torch.Tensor]:
        """The rows of a tensor of up to three."""
        count = 0
        try:
            for each in torch.arange(self._random.randrange(4)) * self.state[0]:
                count += 1
                yield each
        finally:
            self.loops.append((number, count))


def loaded(source: str, folder: Path, name: str) -> Any:
    """The module of that source, which is written to a file."""
    file = folder / f"{name}.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def arcs_of(file: str, call: Callable[[], Any]) -> tuple[Any, set[tuple[int, int]]]:
    """What `call` gives, and the arcs between lines of `file` that it takes."""
    coverage = pytest.importorskip("coverage", reason="coverage is not installed; the extra models has it")
    seen = coverage.Coverage(branch=True, data_file=None, include=[file])
    seen.start()
    try:
        given = call()
    finally:
        seen.stop()
    return given, set(seen.get_data().arcs(file) or ())


class Ran(NamedTuple):
    """A run of a generated function."""

    given: list[Any]
    drawn: Drawn
    arcs: set[tuple[int, int]]
    steps: list[FlowStep]


def run(module: Any, seed: int, *, flow: bool) -> Ran:
    drawn, model = Drawn(seed), module.Model()

    def call() -> Any:
        return model(drawn.test, drawn.items)

    if not flow:
        given, arcs = arcs_of(module.__file__, call)
        return Ran(given, drawn, arcs, [])
    with Proxy.trace(model, flow=True) as trace:
        given, arcs = arcs_of(module.__file__, call)
    return Ran(given, drawn, arcs, trace.flow_steps())


def assert_same(found: Any, wanted: Any) -> None:
    assert type(found) is type(wanted)
    if isinstance(wanted, torch.Tensor):
        assert torch.equal(found, wanted)
    elif isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    elif "<" not in repr(wanted):  # Generators and the like are equal to themselves alone.
        assert found == wanted


class Branch(NamedTuple):
    """A statement of a function that tests or loops: its lines, and the first one of what it leads to."""

    construct: str
    lines: range
    told_at: int
    body: int


def branches_of(source: str) -> Iterator[Branch]:
    """Those whose body does not begin where they stand, which arcs do not tell apart."""
    elifs = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.If):
            below = node.orelse[0] if len(node.orelse) == 1 else None
            if isinstance(below, ast.If) and below.col_offset == node.col_offset:
                elifs.add(below)
            tested, construct = node.test, "elif" if node in elifs else "if"
        elif isinstance(node, ast.While):
            tested, construct = node.test, "while"
        elif isinstance(node, ast.For):
            tested, construct = node.iter, "for"
        elif isinstance(node, ast.match_case):
            last = node.guard.end_lineno if node.guard is not None else node.pattern.end_lineno
            body = node.body[0].lineno
            assert last is not None
            yield Branch("match", range(node.pattern.lineno, last + 1), node.pattern.lineno, body)
            continue
        else:
            continue
        assert tested.end_lineno is not None
        body = node.body[0].lineno
        if body > tested.end_lineno:
            yield Branch(construct, range(node.lineno, tested.end_lineno + 1), tested.lineno, body)


@pytest.mark.parametrize("part", range(7))
def test_generated_functions_agree_with_the_arcs_and_with_a_plain_count(part: int, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    branches = multi_line = 0
    for seed in range(part * 30, part * 30 + 30):
        source = Writer(seed).source() + _MODEL
        name = f"flow_oracle_{seed}"
        module = loaded(source, tmp_path, name)
        plain, observed = run(module, seed, flow=False), run(module, seed, flow=True)
        del sys.modules[name]

        assert_same(observed.given, plain.given)
        assert torch.equal(observed.drawn.state, plain.drawn.state)
        assert (observed.drawn.tests, observed.drawn.loops) == (plain.drawn.tests, plain.drawn.loops)
        if not re.search(r"\b(and|or)\b", source):
            assert _between_lines(observed.arcs) == _between_lines(plain.arcs)
        for branch in branches_of(source):
            _assert_agrees(branch, observed.steps, plain.arcs)
            branches += 1
            multi_line += len(branch.lines) > 1
        _assert_counted(source, observed.steps, plain.drawn)
    assert branches > 100
    assert multi_line > 5


def _between_lines(arcs: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """Those from one line to another: a call of torch that is seen has a frame at its own line, for warnings."""
    return {arc for arc in arcs if abs(arc[0]) != abs(arc[1])}


def _assert_agrees(branch: Branch, steps: list[FlowStep], arcs: set[tuple[int, int]]) -> None:
    """Its body was entered by an arc if, and only if, a step says so; and was passed by likewise."""
    told = [each for each in steps if (each.construct, each.line) == (branch.construct, branch.told_at)]
    entered = any(begin in branch.lines and end == branch.body for begin, end in arcs)
    if branch.construct == "for":
        assert entered == any(each.iterations for each in told)
        return
    assert entered == any(each.value for each in told)
    if branch.construct != "match":  # Of a pattern that does not match nothing is told.
        left = any(begin in branch.lines and end not in branch.lines and end != branch.body for begin, end in arcs)
        assert left == any(each.value is False for each in told)


def _assert_counted(source: str, steps: list[FlowStep], drawn: Drawn) -> None:
    """What stands alone in a test or a loop was told as often as it was called."""
    alone = {
        int(number)
        for number in re.findall(r"(?<!case \d )(?:if|elif|while|assert) test\((\d+)\)(?=:| else|, |[\])}])", source)
    }
    told = [int(each.name[5:-1]) for each in steps if re.fullmatch(r"test\(\d+\)", each.name)]
    assert [number for number in told if number in alone] == [number for number in drawn.tests if number in alone]
    taken = [(int(each.name[6:-1]), each.iterations) for each in steps if re.fullmatch(r"items\(\d+\)", each.name)]
    assert sorted(pair for pair in taken if pair[1]) == sorted(pair for pair in drawn.loops if pair[1])


FORMS: dict[str, tuple[str, list[tuple[str, int, object]]]] = {
    "assignment in a test": (
        """
if (n := x.sum()) > 0:
    x = x + n
""",
        [("if", 1, True)],
    ),
    "chained comparison": (
        """
if 0 < x.sum() < 100 < 200:
    x = x * 2
""",
        [("if", 1, True)],
    ),
    "and, or, over several lines": (
        """
if (x.sum() > 0 and
        x.sum() > 100
        or x.dim() == 1):
    x = x * 2
""",
        [("if", 1, True)],
    ),
    "not": (
        """
if not x.sum() > 0:
    x = x * 2
elif not x.sum() < 0:
    x = -x
""",
        [("if", 1, False), ("elif", 3, True)],
    ),
    "bare tuple": (
        """
for a, b in (1, 2), (3, 4):
    x = x * a + b
""",
        [("for", 1, 2)],
    ),
    "starred": (
        """
for a, *b in [(1, 2, 3), (4,)]:
    x = x + a + sum(b)
""",
        [("for", 1, 2)],
    ),
    "starred iterable": (
        """
for a in *[1, 2], 3:
    x = x + a
""",
        [("for", 1, 3)],
    ),
    "into an element": (
        """
d = [0]
for d[0] in range(3):
    x = x + d[0]
""",
        [("for", 2, 3)],
    ),
    "else of loops": (
        """
for a in x:
    if a > 100:
        break
else:
    x = x + 1
while x.sum() < 0:
    pass
else:
    x = x * 2
""",
        [("if", 2, False), ("if", 2, False), ("for", 1, 2), ("while", 6, False)],
    ),
    "break": (
        """
for a in range(9):
    if a == 2:
        break
""",
        [("if", 2, False), ("if", 2, False), ("if", 2, True), ("for", 1, 3)],
    ),
    "try around": (
        """
try:
    for a in x:
        if a > 0:
            raise KeyError
except KeyError:
    x = x + 1
finally:
    x = x * 2
""",
        [("if", 3, True), ("for", 2, 1)],
    ),
    "test that raises": (
        """
try:
    if x:
        pass
except RuntimeError:
    x = x * 2
""",
        [],
    ),
    "generator": (
        """
def g():
    for a in x:
        if (yield a) is None:
            continue
for b in g():
    x = x + b
""",
        [("if", 3, True), ("if", 3, True), ("for", 2, 2), ("for", 5, 2)],
    ),
    "stored iterator": (
        """
it = iter(range(4))
for a in it:
    if a:
        break
x = x + sum(b for b in it)
""",
        [("if", 3, False), ("if", 3, True), ("for", 2, 2), ("comprehension", 5, 2)],
    ),
    "comprehensions": (
        """
x = x + sum([a for a in range(3) if a]) + sum({b for b in (1, 2)})
d = {k: 1 for k in 'ab' if x.sum() > 0}
""",
        [
            ("comprehension", 1, False),
            ("comprehension", 1, True),
            ("comprehension", 1, True),
            ("comprehension", 1, 3),
            ("comprehension", 1, 2),
            ("comprehension", 2, True),
            ("comprehension", 2, True),
            ("comprehension", 2, 2),
        ],
    ),
    "async": (
        """
import asyncio
async def one(): return 1
async def many():
    for a in range(2):
        yield a
async def f():
    t = 0
    async for a in many():
        if await one() == a:
            t += 1
    return t + sum([a async for a in many() if a])
x = x + asyncio.run(f())
""",
        [
            ("if", 9, False),
            ("if", 9, True),
            ("for", 4, 2),
            ("comprehension", 11, False),
            ("comprehension", 11, True),
            ("for", 4, 2),
        ],
    ),
    "lambda": (
        """
f = lambda y: y * 2 if y.sum() > 0 else y
x = f(x)
""",
        [("ifexp", 1, True)],
    ),
    "nested function with nonlocal": (
        """
n = 0
def f():
    nonlocal n
    while n < 2:
        n += 1
f()
x = x + n
""",
        [("while", 4, True), ("while", 4, True), ("while", 4, False)],
    ),
    "class with private names": (
        """
class C:
    __a = 1 if x.sum() > 0 else 2
    def __get(self):
        return 3 if self.__a else 4
    def get(self):
        return self.__get()
x = x + C().get()
""",
        [("ifexp", 2, True), ("ifexp", 4, True)],
    ),
    "del": (
        """
y = x
if y is x:
    del y
assert 'y' not in locals(), x
""",
        [("if", 2, True), ("assert", 4, True)],
    ),
    "match": (
        """
match x.shape:
    case (1,):
        pass
    case (n,) if n > 5:
        pass
    case (n,):
        x = x + n
""",
        [("match", 4, False), ("match", 6, True)],
    ),
    "ifexp in a test": (
        """
if (x if x.dim() == 1 else -x).sum() > 0:
    x = x * 2
""",
        [("ifexp", 1, True), ("if", 1, True)],
    ),
    "global": (
        """
global G
G = 1
if G:
    x = x + 1
""",
        [("if", 3, True)],
    ),
    "with": (
        """
import contextlib
with contextlib.suppress(KeyError):
    if x.sum() > 0:
        raise KeyError
""",
        [("if", 3, True)],
    ),
}
"""Bodies of a function of `x`, and their steps: construct, line in the body, truth or number of iterations."""


@pytest.mark.parametrize("name", FORMS)
def test_a_form_of_the_grammar_gives_the_same_and_tells_what_it_did(name: str, tmp_path: Path) -> None:
    body, wanted = FORMS[name]
    lines = ["from torch import nn", "class Model(nn.Module):", "    def forward(self, x):"]
    lines += [f"        {line}" for line in body.strip().splitlines()]
    module_name = f"flow_form_{list(FORMS).index(name)}"
    module = loaded("\n".join([*lines, "        return x", ""]), tmp_path, module_name)
    model: nn.Module = module.Model()
    x = torch.tensor([1.0, 2.0])
    plain = model(x)
    with Proxy.trace(model, flow=True) as trace:
        found = model(x)
    del sys.modules[module_name]
    assert torch.equal(found, plain)
    steps = [
        (each.construct, each.line - 3, each.value if each.iterations is None else each.iterations)
        for each in trace.flow_steps()
    ]
    assert steps == wanted
