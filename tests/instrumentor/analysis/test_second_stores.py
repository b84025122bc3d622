"""What an added line stores a second time: nothing that could notice it."""

from __future__ import annotations

from textwrap import indent

import pytest

from instrumentor.instrument import instrument_source
from instrumentor.settings import Settings

HEAD = "import abc, dataclasses, torch\nfrom torch import nn\n"
MAKE = "def __init__(self):\n    self.net = nn.Linear(2, 2)\n"
USE = "made = Trainer()\ntorch.optim.SGD(made.net.parameters(), lr=0.1)\n"
SET = "def __setattr__(self, name, value):\n    print(name)\n    object.__setattr__(self, name, value)\n"
GET = "def __getattribute__(self, name):\n    print(name)\n    return object.__getattribute__(self, name)\n"
NET = "@property\ndef net(self): return self._net\n@net.setter\ndef net(self, net): print('set'); self._net = net\n"
LOGGED = """\
class Logged:
    def __get__(self, made, cls): return made.__dict__["net"]
    def __set__(self, made, net): print("set"); made.__dict__["net"] = net
def log(cls):
    cls.__setattr__ = lambda self, name, value: (print(name), object.__setattr__(self, name, value))[1]
    return cls
class Log(type):
    def __new__(*args): return log(type.__new__(*args))
"""


def cls(*body: str, head: str = "class Trainer") -> str:
    return f"{head}:\n{indent(''.join(body), '    ')}"


def trained(text: str) -> str:
    source = f"{HEAD}{text}{USE}".encode()
    return instrument_source(source, Settings(), source_name="a.py").instrumented.decode()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(cls(MAKE), id="a plain class"),
        pytest.param(cls("net = None\n", MAKE), id="a default"),
        pytest.param(cls("net: nn.Module\nother = Unknown()\n", MAKE), id="a declaration"),
        pytest.param(
            cls("net: object = dataclasses.field(default=None)\n", MAKE, head="@dataclasses.dataclass\nclass Trainer"),
            id="a data class",
        ),
        pytest.param(cls(MAKE, head="class Trainer(metaclass=abc.ABCMeta)"), id="an abstract class"),
    ],
)
def test_an_attribute_that_only_keeps_its_object_is_stored_again(text: str) -> None:
    assert "\n        self.net = Proxy.Proxy(self.net, " in trained(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(cls(MAKE, SET), id="all stores are watched"),
        pytest.param(cls(MAKE, GET), id="all reads are watched"),
        pytest.param(cls(MAKE, NET), id="a property"),
        pytest.param(
            cls(MAKE, "_set = lambda self, net: print(net)\nnet = property(None, _set)\n"), id="one by a call"
        ),
        pytest.param(LOGGED + cls("net = Logged()\n", MAKE), id="a descriptor"),
        pytest.param(LOGGED + cls(MAKE, head="@log\nclass Trainer"), id="a decorator of the class"),
        pytest.param(LOGGED + cls(MAKE, head="class Trainer(metaclass=Log)"), id="a metaclass"),
        pytest.param(cls(MAKE) + cls(NET, head="class Below(Trainer)"), id="a property of a class below"),
        pytest.param(cls(MAKE) + cls(SET, head="class Below(Trainer)"), id="stores watched by a class below"),
        pytest.param(
            cls(SET, head="class Mixin") + cls(MAKE) + cls("pass\n", head="class Below(Mixin, Trainer)"),
            id="stores watched by what a class below mixes in",
        ),
        pytest.param(
            MAKE.replace("__init__", "make") + cls("__init__ = make\n"), id="a function that becomes a method"
        ),
    ],
)
def test_an_attribute_that_may_do_more_gets_its_proxy_with_its_object(text: str) -> None:
    assert "self.net = Proxy.Proxy(nn.Linear(2, 2), " in trained(text)
