"""Which functions do nothing with what they make but return it."""

from __future__ import annotations

import ast
import sys
from textwrap import dedent

import pytest

from instrumentor.resolve.only_returned import function_returning
from instrumentor.resolve.unit import index_unit


def returned_by(source: str) -> str | None:
    """The name of the function that only returns what the call of `Net` gives; of the names, `own` is the project's."""
    unit = index_unit("script.py", "", ast.parse(dedent(source)))
    (call,) = (node for node in unit.parents if isinstance(node, ast.Call) and ast.unparse(node.func) == "Net")

    def resolve(decorator: ast.expr) -> object:
        return unit.functions["own"] if ast.unparse(decorator) == "own" else "functools.cache"

    found = function_returning(unit, call, resolve)
    return None if found is None else found.name


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def make():\n    return Net()\n", id="at once"),
        pytest.param("def make():\n    net = Net()\n    return net\n", id="under a name"),
        pytest.param("def make(n):\n    net = Net(n)\n    print(n)\n    return net\n", id="after something else"),
        pytest.param("def make(big):\n    if big:\n        return Net()\n    return None\n", id="in a branch"),
        pytest.param("def make():\n    with quiet():\n        return Net()\n", id="in a context"),
        pytest.param("def own(f):\n    return f\n@own\ndef make():\n    return Net()\n", id="decorated by the project"),
    ],
)
def test_it_is_only_returned(source: str) -> None:
    assert returned_by(source) == "make"


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def make():\n    net = Net()\n    print(net)\n    return net\n", id="used before"),
        pytest.param("def make():\n    net = kept = Net()\n    return net\n", id="under two names"),
        pytest.param("def make():\n    nets['a'] = Net()\n    return nets['a']\n", id="in a container"),
        pytest.param("def make():\n    global net\n    net = Net()\n    return net\n", id="under a name of the file"),
        pytest.param("def make():\n    return [Net()]\n", id="in a list"),
        pytest.param("def make():\n    return Net().eval()\n", id="what a method of it gives"),
        pytest.param("def make():\n    for _ in range(2):\n        return Net()\n", id="in a loop"),
        pytest.param("def make():\n    return [each for each in Net()]\n", id="gone over"),
        pytest.param("def make():\n    try:\n        return Net()\n    finally:\n        pass\n", id="in a try"),
        pytest.param("def make():\n    yield 1\n    return Net()\n", id="by a generator"),
        pytest.param(
            "def make():\n    net = Net()\n    if not net_wanted:\n        return None\n    return net\n",
            id="not always",
        ),
        pytest.param(
            "def make():\n    net = Net()\n    def get():\n        return net\n    return get\n", id="by one within"
        ),
        pytest.param(
            "def outer():\n    def make():\n        return Net()\n    return make\n", id="by a function in one"
        ),
        pytest.param("class Maker:\n    def make(self):\n        return Net()\n", id="by a method"),
        pytest.param("async def make():\n    return Net()\n", id="by a coroutine"),
        pytest.param(
            "import functools\n@functools.cache\ndef make():\n    return Net()\n", id="decorated by a library"
        ),
        pytest.param("def make():\n    net = Net()\n    return 1\n", id="not returned"),
        pytest.param("net = Net()\n", id="outside of functions"),
        pytest.param(
            "def make():\n    try:\n        return Net()\n    except* ValueError:\n        pass\n",
            id="in a try with groups",
            marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="a syntax of Python 3.11"),
        ),
    ],
)
def test_it_is_not_only_returned(source: str) -> None:
    assert returned_by(source) is None
