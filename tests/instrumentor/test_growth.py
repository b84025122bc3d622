"""The work grows with the script, not with its square, or with what lies in what."""

from __future__ import annotations

import sys
import tracemalloc
from textwrap import indent
from typing import TYPE_CHECKING

import pytest

from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = "import sys\nfrom torch import nn\n"


def factory(size: int) -> str:
    """A function that makes one of many models."""
    returns = "".join(f"    if x == {i}:\n        return nn.Linear({i}, 1)\n" for i in range(size))
    return f"def make(x):\n{returns}model = make(1)\n"


def chain(size: int) -> str:
    """A chain of many calls."""
    return f"made = open('x'){'.a()' * size}\nmodel = nn.Linear(1, 1)\n"


def final_blocks(size: int) -> str:
    """A loop that each of several final blocks, one in the other, may leave."""
    body = "model = nn.Linear(1, 1)\n"
    for _ in range(size):
        tried = "net = nn.Linear(1, 1)\nif i:\n    break\nif i + 1:\n    continue\n"
        body = f"try:\n{indent(tried, '    ')}finally:\n{indent(body, '    ')}"
    return f"for i in range(2):\n{indent(body, '    ')}"


def statements(size: int) -> str:
    """Many statements in one scope, each with a name of its own."""
    return "".join(f"x{i} = {i} + len(str({i}))\n" for i in range(size))


def beside_a_model(body: str) -> str:
    """A script with a model, so that all of it is analysed."""
    return f"{body}model = nn.Linear(1, 1)\nmodel.train()\n"


def flat(size: int) -> str:
    return beside_a_model(statements(size))


def many_models(size: int) -> str:
    lines = (
        f"x{i} = len(str({i}))\n" + (f"m{i} = nn.Linear({i}, 1)\nm{i}(x{i})\n" if i % 5 == 0 else "")
        for i in range(size)
    )
    return "".join(lines)


def in_a_try(size: int) -> str:
    return beside_a_model(f"try:\n{indent(statements(size), '    ')}except ValueError:\n    pass\n")


def in_a_loop(size: int) -> str:
    return beside_a_model(f"for k in range(3):\n{indent(statements(size), '    ')}")


def in_a_context(size: int) -> str:
    text = indent(statements(size), "    ")
    return beside_a_model(f"import contextlib\nwith contextlib.suppress(ValueError):\n{text}")


def in_a_function(size: int) -> str:
    return f"def f():\n{indent(statements(size), '    ')}    return nn.Linear(1, 1)\nmodel = f()\nmodel.train()\n"


def in_a_class(size: int) -> str:
    return beside_a_model(f"class Settings:\n{indent(statements(size), '    ')}")


def branches(size: int) -> str:
    return beside_a_model("".join(f"if sys.argv[{i}]:\n    y{i} = {i}\n" for i in range(size)))


def loops(size: int) -> str:
    return beside_a_model("".join(f"for i{i} in range(3):\n    y{i} = {i}\n" for i in range(size)))


def attributes(size: int) -> str:
    stores = "".join(f"a.x{i} = {i}\n" for i in range(size))
    return beside_a_model(f"class A:\n    pass\na = A()\n{stores}")


def attributes_with_models(size: int) -> str:
    stores = "".join(f"        self.m{i} = nn.Linear({i}, 1)\n" for i in range(size))
    return f"class A:\n    def __init__(self):\n{stores}a = A()\na.m0.train()\n"


def dictionary(size: int) -> str:
    entries = "".join(f"    'k{i}': [{i}, 'v{i}', {{'a': {i}}}],\n" for i in range(size))
    return beside_a_model(f"table = {{\n{entries}}}\n")


def element_stores(size: int) -> str:
    return beside_a_model("table = {}\n" + "".join(f"table['k{i}'] = {i}\n" for i in range(size)))


def list_of_models(size: int) -> str:
    made = ", ".join(f"nn.Linear({i}, 1)" for i in range(size))
    return f"models = [{made}]\nfor model in models:\n    model.train()\n"


def functions(size: int) -> str:
    """Functions that call one another."""
    lines = (f"def f{i}(x):\n    y = f{(i + 1) % size}(x)\n    return f{(7 * i + 3) % size}(y)\n" for i in range(size))
    return "".join(lines) + "model = nn.Linear(1, 1)\nf0(model)\n"


def functions_in_a_row(size: int) -> str:
    """A model that each function gets of the next one."""
    lines = "".join(f"def f{i}(x):\n    return f{i + 1}(x)\n" for i in range(size))
    return f"{lines}def f{size}(x):\n    return nn.Linear(x, 4)\nmodel = f0(4)\nmodel.train()\n"


def classes(size: int) -> str:
    """A class of modules below another one, again and again."""
    body = "    def __init__(self):\n        super().__init__()\n"
    lines = (f"class C{i + 1}(C{i}):\n{body}        self.l{i} = nn.Linear(2, 2)\n" for i in range(size))
    return f"class C0(nn.Module):\n{body}{''.join(lines)}model = C{size}()\n"


def memory(script: str) -> int:
    """How many bytes are held at most to decide about a script."""
    source = (HEAD + script).encode()
    tracemalloc.start()
    try:
        instrument_source(source, Settings(), source_name="x.py")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def work(script: str) -> int:
    """How many functions of Python run to decide about a script."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    outer = sys.getprofile()
    sys.setprofile(note)
    try:
        instrument_source((HEAD + script).encode(), Settings(), source_name="x.py")
    finally:
        sys.setprofile(outer)
    return count


SHAPES = [
    pytest.param(factory, 120, id="a function that makes one of many models"),
    pytest.param(chain, 300, id="a chain of many calls"),
    pytest.param(final_blocks, 4, id="final blocks one in the other"),
    pytest.param(flat, 100, id="many statements in one scope"),
    pytest.param(many_models, 100, id="models among many statements"),
    pytest.param(in_a_try, 100, id="many statements that may fail"),
    pytest.param(in_a_loop, 100, id="a loop of many statements"),
    pytest.param(in_a_context, 100, id="many statements that a context may end"),
    pytest.param(in_a_function, 100, id="a function of many statements"),
    pytest.param(in_a_class, 100, id="a class body of many statements"),
    pytest.param(branches, 100, id="many branches"),
    pytest.param(loops, 100, id="many loops"),
    pytest.param(attributes, 100, id="many attributes of one object"),
    pytest.param(attributes_with_models, 100, id="many models in attributes of one object"),
    pytest.param(dictionary, 100, id="a dictionary of many entries"),
    pytest.param(element_stores, 100, id="many stores into one dictionary"),
    pytest.param(list_of_models, 100, id="a list of many models"),
    pytest.param(functions, 100, id="many functions that call one another"),
    pytest.param(functions_in_a_row, 100, id="many functions of which each calls the next"),
    pytest.param(classes, 60, id="many classes of which each is below the next"),
]


@pytest.mark.sample(4)
@pytest.mark.parametrize(("write", "size"), SHAPES)
def test_twice_as_much_takes_less_than_three_times_as_long(write: Callable[[int], str], size: int) -> None:
    work(write(1))  # what is looked up once for all scripts
    assert work(write(2 * size)) < 3 * work(write(size))


@pytest.mark.sample(4)
@pytest.mark.parametrize(("write", "size"), SHAPES[3:])
def test_four_times_as_much_takes_less_than_eight_times_the_room(write: Callable[[int], str], size: int) -> None:
    """Four times, and a little for what a larger map is deep; sixteen times if each statement kept all before it."""
    memory(write(1))
    assert memory(write(4 * size)) < 8 * memory(write(size))
