from __future__ import annotations

import ast

import pytest

from instrumentor.resolve.classes import Hierarchy
from instrumentor.resolve.nature import Nature
from instrumentor.resolve.project import Project
from instrumentor.resolve.unit import SCRIPT, index_unit

HEAD = "import collections, copy\nimport torch\nfrom torch import nn\nimport torch.nn.functional as F\nimport lib\n"
FORWARD = "    def forward(self, x):\n        return x\n"


def nature(text: str, name: str = "C") -> Nature:
    unit = index_unit(SCRIPT, "", ast.parse(HEAD + text))
    return Hierarchy(Project(unit)).nature(unit.classes[name])


def initialised(*statements: str, base: str = "nn.Module") -> str:
    body = "".join(f"        {statement}\n" for statement in statements)
    return f"class C({base}):\n    def __init__(self, a):\n        super().__init__()\n{body}{FORWARD}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("class C:\n    pass\n", Nature.NOT_MODULE, id="plain"),
        pytest.param("class C(dict):\n    pass\n", Nature.NOT_MODULE, id="of a builtin"),
        pytest.param(
            "class C(torch.utils.data.Dataset):\n    pass\n", Nature.NOT_MODULE, id="of another class of torch"
        ),
        pytest.param("class C(lib.Base):\n    pass\n", Nature.UNKNOWN, id="of an unknown class"),
        pytest.param("class C(lib.Base):\n" + FORWARD, Nature.MODULE, id="of an unknown class with a forward pass"),
        pytest.param("class C(make()):\n    pass\n", Nature.UNKNOWN, id="of a computed class"),
        pytest.param("class C(nn.Linear):\n    pass\n", Nature.MODULE, id="of a layer"),
        pytest.param("class C(nn.MSELoss):\n    pass\n", Nature.NO_PARAMS, id="of a loss"),
        pytest.param(
            "class C(nn.Module):\n    def __call__(self, x, y):\n        return x - y\n",
            Nature.NO_PARAMS,
            id="a loss that is called without a forward pass",
        ),
        pytest.param("class B(nn.Module):\n    pass\nclass C(dict, B):\n    pass\n", Nature.MODULE, id="mixed"),
        pytest.param("class C(C):\n    pass\n", Nature.NOT_MODULE, id="of itself"),
        pytest.param(initialised("self.fc = nn.Linear(1, 1)"), Nature.MODULE, id="with a layer"),
        pytest.param(initialised("self.w = nn.Parameter(a)"), Nature.MODULE, id="with a parameter"),
        pytest.param(
            initialised("w = nn.Parameter(a)", "self.w = w"),
            Nature.MODULE,
            id="with a parameter that a name held before",
        ),
        pytest.param(initialised("w = torch.ones(a)", "self.w = w"), Nature.NO_PARAMS, id="with a tensor by a name"),
        pytest.param(
            "from torch.nn.parameter import Parameter\n" + initialised("self.w = Parameter(a)"),
            Nature.MODULE,
            id="with a parameter by the name of its file",
        ),
        pytest.param(
            initialised("self.w = Scale(a)") + "class Scale(nn.Parameter):\n    pass\n",
            Nature.MODULE,
            id="with a parameter of a class of its own",
        ),
        pytest.param(
            initialised("self.w = scale(a)") + "def scale(a):\n    return nn.Parameter(torch.ones(a))\n",
            Nature.MODULE,
            id="with a parameter that a function makes",
        ),
        pytest.param(
            initialised("self.layers = nn.ModuleList(a)") + "    def run(self, x):\n        return self.layers[0](x)\n",
            Nature.MODULE,
            id="with layers from outside, called one by one",
        ),
        pytest.param(
            initialised("self.parts = a") + "    def run(self, x):\n        return self.parts['b']['c'](x)\n",
            Nature.MODULE,
            id="with parts from outside, called one by one",
        ),
        pytest.param(
            initialised("self.ways = {'mean': torch.mean, 'sum': torch.sum}")
            + "    def run(self, x):\n        return self.ways['sum'](x)\n",
            Nature.NO_PARAMS,
            id="with a table of functions",
        ),
        pytest.param(
            initialised("nets = {18: torch.hub.load}", "self.net = nets[a]()")
            + "    def run(self, x):\n        return self.net.conv1(x)\n",
            Nature.MODULE,
            id="with a part out of a table",
        ),
        pytest.param(initialised("self.net = getattr(lib, a)()"), Nature.MODULE, id="with a part of a computed name"),
        pytest.param(
            initialised("self.net = a(3)") + "    def run(self, x):\n        return self.net.encode(x)\n",
            Nature.MODULE,
            id="with a part that a parameter makes, whose methods are called",
        ),
        pytest.param(
            initialised("self.net = lib.make()") + "    def run(self, x):\n        return self.net.encode(x)\n",
            Nature.MODULE,
            id="with a part that a library makes, whose methods are called",
        ),
        pytest.param(
            initialised("self.net = make(a)")
            + "    def run(self, x):\n        return self.net.encode(x)\n"
            + "def make(a):\n    return a() if a else make(0)\n",
            Nature.MODULE,
            id="with a part that a function makes out of sight, whose methods are called",
        ),
        pytest.param(
            initialised("self.net = self._make(a)") + "    def _make(self, a):\n        return nn.Linear(a, a)\n",
            Nature.MODULE,
            id="with a layer that a method makes",
        ),
        pytest.param(
            initialised("self.net = make(a)")
            + "def make(a):\n    return inner(a)\ndef inner(a):\n    return nn.Linear(a, a) if a else make(a)\n",
            Nature.MODULE,
            id="with a layer that a function's function makes",
        ),
        pytest.param(
            initialised("self.net = a") + "    def run(self, x):\n        return self.net.forward(x)\n",
            Nature.MODULE,
            id="with a part whose forward pass is called",
        ),
        pytest.param(
            "class B(nn.Module):\n    def __init__(self, a):\n        super().__init__()\n        self.net = a\n"
            "class C(B):\n    def forward(self, x):\n        return self.net(x)\n",
            Nature.MODULE,
            id="with a part that a class above it keeps",
        ),
        pytest.param(
            initialised("self.net = a", base="B")
            + "class B(nn.Module):\n    def run(self, x):\n        return self.net(x)\n",
            Nature.MODULE,
            id="with a part that a class above it calls",
        ),
        pytest.param(
            initialised("self.net = a")
            + "    def run(self, x, b=None):\n        b = self.net if b is None else b\n        return b(x)\n",
            Nature.MODULE,
            id="with a part that another name calls",
        ),
        pytest.param(
            "class C(nn.Module):\n    def __init__(self, net: nn.Module, n: int):\n        self.n = n\n" + FORWARD,
            Nature.NO_PARAMS,
            id="with a module that it does not keep",
        ),
        pytest.param(
            "class C(nn.Module):\n    def __init__(self, net: nn.Module):\n        self.net = net\n" + FORWARD,
            Nature.MODULE,
            id="with a part that is declared a module",
        ),
        pytest.param(
            initialised("self.net = lib.Net(3).to('cuda')")
            + "    def run(self, x):\n        return self.net.encode(x)\n",
            Nature.MODULE,
            id="with a part that a library makes and that is moved at once",
        ),
        pytest.param(initialised("self.e = nn.Embedding.from_pretrained(a)"), Nature.MODULE, id="with given vectors"),
        pytest.param(
            initialised("self.log = logger()", "self.window = a.repeat(2)")
            + "    def run(self, x):\n        self.log.info(x)\n        return self.window.type_as(x)\n"
            + "def logger():\n    import logging\n    return logging.getLogger()\n",
            Nature.NO_PARAMS,
            id="with a log and a tensor",
        ),
        pytest.param(initialised("self.register_parameter('w', a)"), Nature.MODULE, id="with a registered parameter"),
        pytest.param(initialised("self._modules['fc'] = nn.Linear(1, 1)"), Nature.MODULE, id="with a table's layer"),
        pytest.param(initialised("setattr(self, 'fc', nn.Linear(1, 1))"), Nature.MODULE, id="with a layer by setattr"),
        pytest.param(initialised("setattr(self, 'gamma', 2.0)"), Nature.NO_PARAMS, id="with a number by setattr"),
        pytest.param(initialised("nn.Module.add_module(self, 'fc', a)"), Nature.MODULE, id="with a method's own form"),
        pytest.param(initialised("add_layers(self)"), Nature.MODULE, id="handed to a function"),
        pytest.param(initialised("lib.add_layers(self, a)"), Nature.MODULE, id="handed to a library"),
        pytest.param(initialised("torch.typename(self)"), Nature.NO_PARAMS, id="handed to torch"),
        pytest.param(
            initialised("note(self)") + "def note(net):\n    print(net.training)\n",
            Nature.NO_PARAMS,
            id="handed to a function that reads it",
        ),
        pytest.param(
            initialised("fill(self)") + "def fill(net):\n    net.fc = nn.Linear(1, 1)\n",
            Nature.MODULE,
            id="handed to a function that fills it",
        ),
        pytest.param(initialised("nn.Module.__init__(self)"), Nature.NO_PARAMS, id="handed to its base"),
        pytest.param(initialised("assert isinstance(self, C)"), Nature.NO_PARAMS, id="asked for its class"),
        pytest.param(initialised("net = self", "net.fc = nn.Linear(1, 1)"), Nature.MODULE, id="by another name"),
        pytest.param(
            initialised() + "    def build(this):\n        this.fc = nn.Linear(1, 1)\n",
            Nature.MODULE,
            id="not called self",
        ),
        pytest.param(
            initialised("self.net = a") + "    def f(this, x):\n        return this.net(x)\n",
            Nature.MODULE,
            id="used by one not called self",
        ),
        pytest.param(
            initialised() + "    @staticmethod\n    def build(other):\n        other.fc = nn.Linear(1, 1)\n",
            Nature.NO_PARAMS,
            id="with another object",
        ),
        pytest.param(initialised("self.register_buffer('w', a)"), Nature.NO_PARAMS, id="with a buffer"),
        pytest.param(initialised("self.gamma = a"), Nature.NO_PARAMS, id="with a number"),
        pytest.param(
            initialised("self.inner = copy.deepcopy(a); self.inner.eval()"), Nature.MODULE, id="with a copy of a module"
        ),
        pytest.param(initialised("self.ce = nn.CrossEntropyLoss()"), Nature.NO_PARAMS, id="with a loss"),
        pytest.param(
            initialised("self.net = a") + "    def f(self, x):\n        return self.net(x)\n",
            Nature.MODULE,
            id="with a module passed in",
        ),
        pytest.param(
            initialised("self.net = a") + "    def f(self):\n        self.net.eval()\n",
            Nature.MODULE,
            id="with a module used",
        ),
        pytest.param(
            initialised("self.ce = nn.MSELoss()") + "    def f(self, x):\n        return self.ce(x)\n",
            Nature.NO_PARAMS,
            id="with a loss called",
        ),
        pytest.param(
            initialised("self.f = lambda x: x") + "    def f(self, x):\n        return self.f(x)\n",
            Nature.NO_PARAMS,
            id="with a function called",
        ),
        pytest.param(
            initialised("self.l = nn.Sequential(nn.ReLU())") + "    def f(self, x):\n        return self.l(x)\n",
            Nature.NO_PARAMS,
            id="with a container of functions",
        ),
        pytest.param(initialised("self.l = nn.ModuleList()"), Nature.MODULE, id="with a container to be filled"),
        pytest.param(
            initialised("self.n = a") + "    def f(self, x):\n        return [x * i for i in range(1, self.n + 1)]\n",
            Nature.NO_PARAMS,
            id="with a number that it counts to",
        ),
        pytest.param(
            initialised("self.l = a")
            + "    def f(self, x):\n        for i in range(len(self.l)):\n            n = self.l[i]\n            n(x)",
            Nature.MODULE,
            id="with modules passed in that it counts",
        ),
        pytest.param(
            initialised("ends = torch.linspace(0, 1, a)", "self.low = ends[:-1]", "self.high = ends[1:]")
            + "    def f(self, x):\n        return [x * (b - a) for a, b in zip(self.low, self.high)]\n",
            Nature.NO_PARAMS,
            id="with slices of a tensor that it goes over",
        ),
        pytest.param(
            initialised("w = nn.Parameter(torch.ones(a))", "self.w = w")
            + "    def f(self):\n        return [*map(len, [w for w in self.w])]\n",
            Nature.MODULE,
            id="with a parameter of another name that it goes over",
        ),
        *(
            pytest.param(
                initialised(f"nets = {made}", f"nets{put}", f"self.nets = {kept}")
                + "    def f(self, x):\n        return [net(x) for net in self.nets]\n",
                Nature.MODULE,
                id=f"with modules put into {made}",
            )
            for made, put, kept in (
                ("nn.ModuleList()", ".append(nn.Linear(1, 1))", "nets"),
                ("[]", ".append(nn.Linear(1, 1))", "nn.ModuleList(nets)"),
                ("collections.defaultdict(list)", "['a'].append(nn.Linear(1, 1))", "nn.ModuleList(nets['a'])"),
            )
        ),
        pytest.param(initialised("for m in self.l: m(1)", "self.l = a"), Nature.MODULE, id="with modules passed in"),
    ],
)
def test_classes_are_known_by_what_they_hold(text: str, wanted: Nature) -> None:
    assert nature(text) is wanted


def test_generic_bases_are_seen_through() -> None:
    assert (
        nature("from typing import Generic\nclass B(nn.Linear):\n    pass\nclass C(B[int], Generic[int]):\n    pass\n")
        is Nature.MODULE
    )


def test_descendants_and_methods() -> None:
    unit = index_unit(
        SCRIPT,
        "",
        ast.parse("class A:\n    def f(self): pass\nclass B(A):\n    pass\nclass C(B):\n    def f(self): pass\n"),
    )
    hierarchy = Hierarchy(Project(unit))
    a, b, c = (unit.classes[name] for name in "ABC")
    assert hierarchy.descendants(a) == [b, c]
    assert hierarchy.method(b, "f") is a.methods["f"]
    assert hierarchy.method(c, "f") is c.methods["f"]
    assert hierarchy.method(c, "g") is None


def test_functions_that_call_one_another_in_many_ways_are_looked_into_once() -> None:
    depth = 40
    made = "".join(f"def f{i}(a):\n    return f{i + 1}(a), f{i + 1}(a)\n" for i in range(depth))
    body = initialised("self.net = f0(a)") + "    def run(self, x):\n        return self.net.encode(x)\n"
    assert nature(f"{body}{made}def f{depth}(a):\n    return len(a)\n") is Nature.NO_PARAMS
    assert nature(f"{body}{made}def f{depth}(a):\n    return nn.Linear(a, a)\n") is Nature.MODULE
