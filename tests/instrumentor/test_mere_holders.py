"""Modules in which nothing is registered, and that nobody uses as modules, get no proxy; all others keep theirs."""

from __future__ import annotations

import pytest

from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings

HEAD = "import torch\nfrom torch import nn\nimport lib\n"
KEPT = "[nn.Linear(2, 2), nn.Linear(2, 2)]"
NET = f"""class Net(nn.Module):
    def __init__(self, given=None):
        super().__init__()
        self.layers = {KEPT}

    def predict(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

"""


def verdict(body: str) -> str:
    """What is decided of the first object of the class `Net`, or of one below it."""
    source = (HEAD + body).encode()
    decisions = instrument_source(source, Settings(), source_name="x.py").decisions
    return next(each for each in decisions if each.object in {"Net", "Sub"}).verdict


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(NET + "net = Net()\nnet.predict(torch.ones(2))\n", id="layers in a list"),
        pytest.param(NET.replace(KEPT, "{'a': nn.Linear(2, 2)}") + "net = Net()\n", id="layers in a dict"),
        pytest.param(NET.replace(KEPT, "[] + [nn.Linear(2, 2)]") + "net = Net()\n", id="layers in a sum of lists"),
        pytest.param(NET + "class Sub(Net):\n    pass\nnet = Sub()\n", id="of a class below"),
        pytest.param(NET + "net = Net()\nfor layer in net.layers:\n    layer.train()\n", id="layers used from outside"),
    ],
)
def test_a_mere_holder_gets_no_proxy_and_what_it_holds_does(body: str) -> None:
    assert verdict(body) == "not wrapped"
    decisions = instrument_source((HEAD + body).encode(), Settings(), source_name="x.py").decisions
    assert any(each.verdict == "wrap" and each.object == "torch.nn.Linear" for each in decisions)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(NET + "net = Net()\nopt = torch.optim.SGD(net.parameters(), lr=1)\n", id="its parameters"),
        pytest.param(NET + "def f(m):\n    return m.parameters()\nnet = Net()\nf(net)\n", id="used in a function"),
        pytest.param(NET + "net = Net()\nnet.eval()\n", id="put into a mode"),
        pytest.param(NET + "net = Net()\nnet.fc = nn.Linear(2, 2)\n", id="filled"),
        pytest.param(NET + "def f(m):\n    m.fc = nn.Linear(2, 2)\nnet = Net()\nf(net)\n", id="filled in a function"),
        pytest.param(NET + "net = Net()\nsetattr(net, 'a', nn.Linear(2, 2))\n", id="filled by setattr"),
        pytest.param(NET + "net = Net()\nnet.add_module('a', nn.Linear(2, 2))\n", id="filled by a method"),
        pytest.param(NET + "net = Net()\nnet.register_buffer('x', torch.ones(2))\n", id="given a buffer"),
        pytest.param(NET + "net = Net()\nnet.w = nn.Parameter(torch.ones(2))\n", id="given a parameter"),
        pytest.param(NET + "net = Net()\nlib.train(net)\n", id="handed to a library"),
        pytest.param(NET + "net = Net()\nlib.run(net.predict)\n", id="its method handed to a library"),
        pytest.param(NET + "net = Net()\nnet.forward = net.predict\nnet(1)\n", id="given a forward"),
        pytest.param(NET.replace("predict", "forward") + "net = Net()\n", id="with a forward"),
        pytest.param(NET.replace("predict", "__call__") + "net = Net()\n", id="with a call"),
        pytest.param(NET.replace(KEPT, "nn.ModuleList()") + "net = Net()\n", id="with registered layers"),
        pytest.param(NET.replace(KEPT, "lib.make()") + "net = Net()\n", id="with what cannot be seen"),
        pytest.param(NET.replace(KEPT, "given") + "net = Net(nn.Linear(2, 2))\n", id="with what it is given"),
        pytest.param(
            NET + "    def more(self):\n        self.fc = nn.Linear(2, 2)\nnet = Net()\nnet.more()\n",
            id="filled by its own method",
        ),
        pytest.param(
            NET + "    def more(self):\n        self.add_module('a', lib.make())\nnet = Net()\nnet.more()\n",
            id="filled by a call of its own method",
        ),
        pytest.param(
            NET + "class Sub(Net):\n    def more(self):\n        self.fc = nn.Linear(2, 2)\nnet = Sub()\n",
            id="of a class below that registers something",
        ),
        pytest.param("@lib.extended\n" + NET + "net = Net()\n", id="of a class that something decorates"),
        pytest.param(
            NET.replace("nn.Module", "lib.Base") + "net = Net()\nnet.parameters()\n", id="of a base out of sight"
        ),
    ],
)
def test_whatever_else_is_used_as_a_module_keeps_its_proxy(body: str) -> None:
    assert verdict(body) == "wrap"
