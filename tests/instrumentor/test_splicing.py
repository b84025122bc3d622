"""Changes within statements: in every part of a statement that can make a model, and where libcst cannot read it."""

from __future__ import annotations

import ast

import pytest

from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings
from instrumentor.source.undo import undo

HEAD = (
    "from torch import nn\ndef use(net, *_, **__):\n    net.train()\n    kept.append(net)\n    return net\nkept = []\n"
)
NET = "nn.Linear(2, 2)"
SOURCES = {
    "the head of a branch": f"if 0:\n    pass\nelif use({NET}):  # why\n    pass\n",
    "the head of a loop": f"while not use({NET}):\n    pass\n",
    "what a match looks at": f"match use({NET}):\n    case _:\n        pass\n",
    "the guard of a case": f"match 0:\n    case 1:\n        pass\n    case 0 if use({NET}):\n        pass\n",
    "the guard of a case in brackets, which libcst cannot read from there": (
        f"match 0:\n    case (0) if use({NET}):\n        pass\n"
    ),
    "what is caught": f"try:\n    pass\nexcept (use({NET}) and ValueError):\n    pass\n",
    "a decorator": f"@(lambda function: use({NET}) and function)\ndef decorated():\n    pass\n",
    "a default": f"class Own:\n    def method(self, net=use({NET})):\n        return net\n",
    "brackets around": f"a = use((({NET})))\n",
    "several in one": f"use(use({NET}), use({NET}),\n    use({NET}))\n",
    "a form feed": f"if 1:\n\f    use({NET})\n",
    "line ends of all kinds": f"use(\r\n    {NET}\r)\n",
    "letters of several bytes": f"'äöü'; use({NET}); 'ß'\n",
    "no line end": f"if 1: use({NET})",
}


@pytest.mark.parametrize("source", [pytest.param(HEAD + text, id=name) for name, text in SOURCES.items()])
def test_a_proxy_goes_around_the_expression_and_can_be_taken_out(source: str) -> None:
    found = instrument_source(source.encode(), Settings(), source_name="a.py").instrumented
    assert undo(found, source_name="a.py").original == source.encode()
    calls = [each for each in ast.walk(ast.parse(found)) if isinstance(each, ast.Call)]
    proxied = [ast.unparse(call.args[0]) for call in calls if ast.unparse(call.func) == "Proxy.Proxy"]
    assert proxied == [NET] * source.count(NET)
