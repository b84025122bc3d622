"""Observed code does what the program's does, and what it tells agrees with the program's own account."""

from __future__ import annotations

import builtins
import re
import sys
import traceback
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy_wrapper.flow import calls
from proxy_wrapper.flow.loops import Loops
from proxy_wrapper.flow.observed_code import ITER, LOOP, TRUTH, compile_observed
from tests.proxy_wrapper.flow.random_functions import Account, Writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

Site = tuple[str, str, int]
FILE = "<observed>"


class Told:
    """What observed code tells."""

    def __init__(self) -> None:
        self.steps: list[tuple[Site, bool | None, int | None]] = []
        self._loops = Loops()

    def truth(self, site: Site, value: bool, _: FrameType) -> None:
        self.drain()
        self.steps.append((site, value, None))

    def loop(self, site: Site, iterator: Iterator[Any], _: FrameType) -> Iterator[Any]:
        self.drain()
        return self._loops.follow(iterator, site)

    def drain(self) -> None:
        self.steps += [(loop.made, None, loop.iterations) for loop in self._loops.take_ended()]


@pytest.fixture
def told() -> Iterator[Told]:
    told = Told()
    calls.put_in(told.truth, told.loop)
    yield told
    for name in (TRUTH, LOOP, ITER):
        delattr(builtins, name)


class Run(NamedTuple):
    yielded: list[Any]
    error: str
    account: Account
    random_state: object
    lines: list[tuple[str, int]]


def run(code: CodeType, seed: int, name: str = "function") -> Run:
    scope: dict[str, Any] = {}
    exec(code, scope)
    account = Account(seed)
    lines: list[tuple[str, int]] = []

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != FILE:
            return None
        here = (frame.f_code.co_name, frame.f_lineno)
        if event == "line" and (not lines or lines[-1] != here):
            lines.append(here)
        return trace

    yielded, error = [], ""
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for each in scope[name](account.test, account.items):
            yielded.append(repr(each))  # noqa: PERF401  What came before an error counts.
    except (ValueError, KeyError) as raised:
        sys.settrace(before)
        error = "".join(traceback.format_exception(raised))
    finally:
        sys.settrace(before)
    return Run(yielded, error, account, account.random.getstate(), lines)


@given(st.integers(0, 2**32), st.integers(0, 2**32))
@settings(max_examples=250, deadline=None)
def test_a_random_function_does_the_same_and_tells_what_it_did(source_seed: int, run_seed: int) -> None:
    source = Writer(source_seed).source()
    plain = run(compile(source, FILE, "exec"), run_seed)
    told = Told()
    calls.put_in(told.truth, told.loop)
    observed = run(compile_observed(source, FILE), run_seed)
    told.drain()
    calls.take_out()

    assert observed.yielded == plain.yielded
    assert observed.error == plain.error
    assert observed.account.truths == plain.account.truths
    assert observed.account.taken == plain.account.taken
    assert observed.random_state == plain.random_state
    assert set(observed.lines) == set(plain.lines)
    if not re.search(r"and|or|left_over", source):
        assert observed.lines == plain.lines

    asked = [(number, truth) for number, truth in plain.account.truths if f"test({number})" in _texts(told)]
    assert [(_number(site), value) for site, value, _ in told.steps if _is_plain_test(site)] == asked
    loops = [(_number(site), count) for site, _, count in told.steps if count is not None and _number(site)]
    assert sorted(filter(_has_run, loops)) == sorted(filter(_has_run, plain.account.taken))
    assert set(plain.account.taken) <= set(loops)
    text = source.splitlines()
    for (_, words, line), _, _ in told.steps:
        number = re.search(r"(?:test|items)\(\d+\)", words)
        assert number is None or number[0] in "\n".join(text[line - 1 : line + 1])


def _has_run(loop: tuple[int, int | None]) -> bool:
    """Whether it took anything; a generator that is never begun keeps no account."""
    return bool(loop[1])


def _texts(told: Told) -> set[str]:
    return {site[1] for site, value, _ in told.steps if value is not None}


def _is_plain_test(site: Site) -> bool:
    return re.fullmatch(r"test\(\d+\)", site[1]) is not None


def _number(site: Site) -> int:
    found = re.fullmatch(r"(?:for )?(?:\w+|\w+ for) in items\((\d+)\)|test\((\d+)\)", site[1])
    return int(found[1] or found[2]) if found is not None else 0


def steps_of(source: str, told: Told, **scope: Any) -> list[tuple[Any, ...]]:
    exec(compile_observed(source, FILE), scope)
    told.drain()
    return [(*site, value if count is None else count) for site, value, count in told.steps]


def test_every_construct_is_told_with_its_line(told: Told) -> None:
    source = """
x = 2
if x > 3: pass
elif x > 1: pass
while x:
    x -= 1
for a, *b in [(1, 2)]:
    break
y = 1 if x else 2
assert y == 2
z = [i for i in range(3) if i != 1]
match y:
    case 1: pass
    case 2 if x: pass
    case int(): pass
while True: break
"""
    assert steps_of(source, told) == [
        ("if", "x > 3", 3, False),
        ("elif", "x > 1", 4, True),
        ("while", "x", 5, True),
        ("while", "x", 5, True),
        ("while", "x", 5, False),
        ("for", "(a, *b) in [(1, 2)]", 7, 1),
        ("ifexp", "x", 9, False),
        ("assert", "y == 2", 10, True),
        ("comprehension", "i != 1", 11, True),
        ("comprehension", "i != 1", 11, False),
        ("comprehension", "i != 1", 11, True),
        ("comprehension", "for i in range(3)", 11, 3),
        ("match", "case 2 if x", 14, False),
        ("match", "case int()", 15, True),
    ]


@pytest.mark.parametrize(
    ("source", "error"),
    [
        pytest.param("def f():\n  if Bad(): pass", ValueError, id="a truth that raises"),
        pytest.param("def f():\n  for x in 5: pass", TypeError, id="what is not iterable"),
        pytest.param("def f():\n  for x in bad(): pass", ValueError, id="an iterator that raises"),
        pytest.param("def f():\n  for x in [1]:\n    raise KeyError", KeyError, id="a body that raises"),
        pytest.param("def f():\n  assert Bad()", ValueError, id="an assertion that cannot be asked"),
        pytest.param("def f():\n  assert False or 0, 'message'", AssertionError, id="an assertion that fails"),
        pytest.param("def f():\n  return [x for x in bad() if x]", ValueError, id="a comprehension"),
        pytest.param("def f():\n  return 1 if (2 if Bad() else 3) else 4", ValueError, id="a test in a test"),
        pytest.param("def f():\n  for x, y in [(1,)]: pass", ValueError, id="elements that do not fit"),
    ],
)
def test_a_traceback_is_that_of_the_program(told: Told, source: str, error: type[Exception]) -> None:
    class Bad:
        def __bool__(self) -> bool:
            raise ValueError("no truth")

    def bad() -> Iterator[int]:
        yield 1
        raise ValueError("no more")

    shown = []
    for code in (compile(source, FILE, "exec"), compile_observed(source, FILE)):
        scope: dict[str, Any] = {"Bad": Bad, "bad": bad}
        exec(code, scope)
        with pytest.raises(error) as raised:
            scope["f"]()
        shown.append("".join(traceback.format_exception(raised.value)))
    assert shown[0] == shown[1]


def test_an_iterator_is_closed_when_the_loop_is_left(told: Told) -> None:
    happened: list[str] = []

    def items() -> Iterator[int]:
        try:
            yield from range(5)
        finally:
            happened.append("closed")

    steps_of("for x in items():\n  if x == 2: break\nhappened.append('after')", told, items=items, happened=happened)
    assert happened == ["closed", "after"]


def test_a_stored_iterator_goes_on_where_it_was(told: Told) -> None:
    source = "it = iter(range(5))\nfor x in it:\n  if x == 1: break\nrest = [y for y in it]"
    scope: dict[str, Any] = {}
    exec(compile_observed(source, FILE), scope)
    told.drain()
    assert scope["rest"] == [2, 3, 4]
    assert [count for _, _, count in told.steps if count is not None] == [2, 3]


def test_a_generator_that_is_given_up_ends_its_loop(told: Told) -> None:
    scope: dict[str, Any] = {}
    exec(compile_observed("def g():\n  for x in range(9): yield x", FILE), scope)
    generator = scope["g"]()
    assert [next(generator), next(generator)] == [0, 1]
    told.drain()
    assert told.steps == []
    del generator
    told.drain()
    assert told.steps == [(("for", "x in range(9)", 2), None, 2)]


def test_annotations_and_constant_tests_stay_as_they_are(told: Told) -> None:
    source = "from __future__ import annotations\ndef f(x: 1 if y else 2): pass\nif 1: pass\nif __debug__: pass"
    scope: dict[str, Any] = {}
    exec(compile_observed(source, FILE), scope)
    assert scope["f"].__annotations__ == {"x": "1 if y else 2"}
    assert told.steps == []


def test_async_code_is_observed(told: Told) -> None:
    source = """
import asyncio
async def numbers():
    for i in range(3): yield i
async def main():
    found = [i async for i in numbers() if i]
    async for i in numbers():
        if await asyncio.sleep(0, i == 1): break
    return found
result = asyncio.run(main())
"""
    scope: dict[str, Any] = {}
    exec(compile_observed(source, FILE), scope)
    told.drain()
    assert scope["result"] == [1, 2]
    assert [(site[0], value) for site, value, count in told.steps if count is None] == [
        ("comprehension", False),
        ("comprehension", True),
        ("comprehension", True),
        ("if", False),
        ("if", True),
    ]
