"""Which objects get a proxy, which are recognised as one that has one, and why the others get none."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from instrumentor.instrument import instrument_source
from instrumentor.resolve.project import Sources
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from instrumentor.decision import Decision

HEAD = """\
import copy
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, inner=None):
        super().__init__()
        self.body = nn.Linear(2, 2)
        self.inner = inner
    def forward(self, x):
        return self.inner(self.body(x))
"""
FIRST = HEAD.count("\n")


def decide(body: str, settings: Settings | None = None, **files: str) -> tuple[Decision, ...]:
    siblings = {f"{name}.py": dedent(text).encode() for name, text in files.items()}
    source = (HEAD + dedent(body).lstrip("\n")).encode()
    return instrument_source(
        source, settings or Settings(), source_name="x.py", sources=Sources(siblings.get)
    ).decisions


def wraps(body: str, settings: Settings | None = None, **files: str) -> list[tuple[int, str]]:
    """The proxies as (line of the body, target)."""
    decisions = decide(body, settings, **files)
    return [(each.line - FIRST, each.target) for each in decisions if each.verdict == "wrap"]


def others(body: str, **files: str) -> list[tuple[int, str, str]]:
    """The rest of the body as (line, target, relation or reason code)."""
    return [
        (each.line - FIRST, each.target, each.relation or each.reason_code)
        for each in decide(body, None, **files)
        if each.verdict != "wrap" and each.line > FIRST
    ]


OWN_MODELS = """\
class Outer(nn.Module):
    def run(self, x):
        return Net()(x)
    def both(self, x):
        inner = Net()
        return inner(x), inner
outer = Outer()
y = outer.run(x)
z, net = outer.both(x)
"""
PLAIN_LIST = """\
class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = []
        self.layers += [Net()]
        self.layers.append(Net())
        self.known = nn.ModuleList([Net()])
m = Own()
"""
REGISTERED_LATER = """\
class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [Net()]
        for i, layer in enumerate(self.layers):
            self.add_module(str(i), layer)
m = Own()
"""
WRAPPED = {
    "both branches": ("if x:\n    m = Net()\nelse:\n    m = nn.Linear(1, 1)\n", [(2, "m"), (4, "m")]),
    "rebound in a loop": ("for i in range(3):\n    m = Net()\n    m = m.to('cpu')\n", [(2, "m")]),
    "while with break": ("while True:\n    m = Net()\n    if m:\n        break\nn = m\n", [(2, "m")]),
    "the alias of a loop's last round": ("m = Net()\nfor i in y:\n    old = m\n    m = Net()\n", [(1, "m"), (4, "m")]),
    "try and handler": ("try:\n    m = Net()\nexcept E as m:\n    m = Net()\n", [(2, "m"), (4, "m")]),
    "finally": ("try:\n    pass\nfinally:\n    m = Net()\n", [(4, "m")]),
    "with": ("with torch.device('meta'):\n    m = Net()\n", [(2, "m")]),
    "match": ("match x:\n    case 1:\n        m = Net()\n    case Net() as n:\n        m = n\n", [(3, "m")]),
    "async": ("async def f():\n    async with a as b:\n        m = Net()\n        await m(1)\n", [(3, "m")]),
    "awaited factory": (
        "async def make():\n    return Net()\nasync def main():\n    m = await make()\n    m(1)\n",
        [(4, "m")],
    ),
    "closure": (
        "def f():\n    def g():\n        nonlocal m\n        m = Net()\n    m = None\n    g()\n    m(1)\n",
        [(4, "m")],
    ),
    "class by name": ("cls = Net\nm = cls()\n", [(2, "m")]),
    "class as argument": ("def make(cls):\n    return cls()\nm = make(Net)\n", [(3, "m")]),
    "class from a dict": ("m = {'a': Net, 'b': nn.Linear}[x]()\n", [(1, "m")]),
    "class or coroutine function": ("async def f():\n    return 1\nm = {'a': Net, 'b': f}[x]()\n", [(3, "m")]),
    "class or function that keeps what it gives": (
        "kept = []\ndef f():\n    m = Net()\n    kept.append(m)\n    return m\nm = {'a': Net, 'b': f}[x]()\n",
        [(3, "m"), (6, "m")],
    ),
    "partial": ("import functools\nf = functools.partial(Net, 1)\nm = f()\n", [(3, "m")]),
    "subclass of a subclass": ("class A(Net):\n    pass\nclass B(A):\n    pass\nm = B()\n", [(5, "m")]),
    "class in a function": ("def f():\n    class In(nn.Module):\n        pass\n    m = In()\n    m(1)\n", [(4, "m")]),
    "recursive factory": ("def f(n):\n    if n:\n        return f(n - 1)\n    return Net()\nm = f(2)\n", [(5, "m")]),
    "named like an argument": ("def f():\n    return (argnet := Net())\nm = f()\n", [(3, "m")]),
    "named in a text": ("x = f'{print} {(m := Net())}'\nm(1)\n", [(1, "m")]),
    "counted in a text": (
        'print(f"{sum(p.numel() for p in (m := Net()).parameters())} parameters")\nm(1)\n',
        [(1, "m")],
    ),
    "class that its decorator makes an instance of": (
        "def new(cls):\n    return cls()\n@new\nclass m(Net):\n    pass\nm(1)\n",
        [(2, "return")],
    ),
    "class that is decorated and stays one": (
        "known = []\ndef keep(cls):\n    known.append(cls)\n    return cls\n@keep\nclass A(Net):\n    pass\nm = A()\n",
        [(8, "m")],
    ),
    "callback": ("import lib\ndef make():\n    return Net()\nlib.run(make)\n", [(3, "return")]),
    "method of a framework's class": (
        "import lib\nclass T(lib.T):\n    def build(self):\n        return Net()\n",
        [(4, "return")],
    ),
    "used as a module": ("import lib\nm = lib.thing()\nlib.fit(m.parameters())\n", [(2, "m")]),
    "used as a module by a function": ("import lib\ndef f(n):\n    n.eval()\nm = lib.thing()\nf(m)\n", [(4, "m")]),
    "passed to a wrapper": ("import lib\nm = nn.DataParallel(lib.thing())\n", [(2, "m.module")]),
    "copied": ("m = Net()\nn = copy.deepcopy(m)\n", [(1, "m"), (2, "n")]),
    "left to subclasses that another file has": (
        (
            "class Base:\n    def make(self):\n        raise NotImplementedError('make')\n    def run(self):\n"
            "        self.net = self.make()\n        self.net.parameters()\n        self.size = self.make()\n"
        ),
        [(5, "self.net")],
    ),
    "abstract": (
        (
            "import abc\nclass Base(abc.ABC):\n    @abc.abstractmethod\n    def make(self): ...\n    def run(self):\n"
            "        self.net = self.make()\n        self.net.parameters()\n"
        ),
        [(6, "self.net")],
    ),
    "scripted and trained": ("m = torch.jit.script(Net())\nm.parameters()\n", [(1, "m"), (1, "arg0")]),
    "prepared for quantization": (
        "q = torch.ao.quantization.get_default_qconfig()\nm = torch.ao.quantization.prepare(Net())\n",
        [(2, "m")],
    ),
    "dataclass field": (
        "from dataclasses import dataclass\n@dataclass\nclass T:\n    net: nn.Module\nt = T(Net())\nt.net.eval()\n",
        [(5, "arg0")],
    ),
    "default of a parameter": ("def f(m=Net()):\n    m(1)\n", [(1, "m")]),
    "yielded": ("def f():\n    yield Net()\nfor m in f():\n    m(1)\n", [(2, "yield")]),
    "starred unpacking": ("a, *b = Net(), Net()\n", [(1, "a"), (1, "tuple[1]")]),
    "default of a lambda": ("f = lambda m=Net(): m\nf()\n", [(1, "m")]),
    "star import": ("from torch.nn import *\nm = Linear(1, 1)\n", [(2, "m")]),
    "the same object for every caller": (
        "import functools\n@functools.lru_cache()\ndef get():\n    return Net()\na = get()\nb = get()\n",
        [(4, "return")],
    ),
    "called here and by others": ("import lib\ndef f():\n    return Net()\nm = f()\nlib.run(f)\n", [(3, "return")]),
    "kept by a module in a plain list": (PLAIN_LIST, [(5, "self.layers[*]"), (6, "self.layers[*]"), (8, "m")]),
    "registered after a plain list": (REGISTERED_LATER, [(7, "m")]),
    "output of a model that a method makes for itself": (OWN_MODELS, [(7, "outer"), (9, "net")]),
    "a model whose output is the loss": ("import lib\nm = lib.thing()\nl = m(x)\nl.backward()\n", [(2, "m")]),
    "not always returned": (
        "def f(x):\n    m = Net()\n    if x:\n        m = x\n    return m\na = f(0)\n",
        [(2, "m")],
    ),
    "met in loops": (
        "import lib\nfor m in lib.nets():\n    m.eval()\ndef f(nets):\n    for m in nets:\n        m.eval()\n",
        [(2, "m")],
    ),
    "copies of settings": (
        "class H:\n    data = Net()\nm = Net()\na = copy.copy(m.args)\nb = copy.copy(m.body)\nc = copy.copy(H.data)\n",
        [(2, "data"), (3, "m"), (5, "b"), (6, "c")],
    ),
    "taken from a file, or else made": (
        "def f(x):\n    if x:\n        return torch.load(x)['model'], 1\n    return Net(), 0\na, b = f(0)\n",
        [(5, "a")],
    ),
    "not always absorbed": (
        "a = nn.Linear(1, 1)\nb = nn.Linear(1, 1)\nm = Net(a if x else b)\n",
        [(1, "a"), (2, "b"), (3, "m")],
    ),
    "called before it is absorbed": ("a = nn.Linear(1, 1)\na(x)\nm = Net(a)\n", [(1, "a"), (3, "m")]),
    "called by a function before it is absorbed": (
        "def step(n):\n    n(1)\ndef fit(n):\n    step(n)\na = nn.Linear(1, 1)\nfit(a)\nm = Net(a)\nfit(m)\n",
        [(5, "a"), (7, "m")],
    ),
    "called only when it is absorbed": (
        "def train(n):\n    n(1)\na = nn.Linear(1, 1)\no = torch.optim.SGD(a.parameters())\nm = Net(a)\ntrain(a)\n",
        [(5, "m")],
    ),
    "appended under a condition": (
        "a = nn.Linear(1, 1)\nparts = []\nif x:\n    parts.append(a)\nm = nn.Sequential(*parts)\n",
        [(1, "a"), (5, "m")],
    ),
    "absorbed by the next round": ("m = Net()\nfor i in x:\n    m = Net(m)\n", [(1, "m"), (3, "m")]),
    "appended by a function": (
        "def put(models, m):\n    models.append(m)\nnets = []\na = Net()\nput(nets, a)\n",
        [(4, "a")],
    ),
    "fetched from a file": ("m = torch.load('x')['model']\nm.eval()\n", [(1, "m")]),
    "made by an element of a parameter": (
        "def train(config):\n    m = config['class'](config)\n    m.parameters(), m.train()\n",
        [(2, "m")],
    ),
    "made by an element of a parameter that callers pass": (
        "def train(c):\n    m = c['model']['class'](3)\n    m.parameters(), m.train()\nimport lib\ntrain(lib.f())\n",
        [(2, "m")],
    ),
    "made by an element of a library's object": (
        "import lib\nzoo = lib.Registry('zoo')\nm = zoo['large'](3)\nm.parameters(), m.train()\n",
        [(3, "m")],
    ),
    "made by a method of an element": (
        "import lib\nzoo = lib.Registry('zoo')\nm = zoo['large'].build(3)\nm.parameters(), m.train()\n",
        [(3, "m")],
    ),
    "made by what an attribute of a library's object has": (
        "import lib\nzoo = lib.Registry('zoo')\nm = zoo.models['large'](3)\nm.parameters(), m.train()\n",
        [(3, "m")],
    ),
}


@pytest.mark.parametrize(("body", "wanted"), WRAPPED.values(), ids=WRAPPED.keys())
def test_every_root_is_wrapped_once(body: str, wanted: list[tuple[int, str]]) -> None:
    assert wraps(body) == wanted


TOLD = {
    "alias": ("m = Net()\nn = m\n", [(2, "n", "same")]),
    "chain of identity methods": ("m = Net()\nn = m.to(1).train().half()\n", [(2, "n", "same")]),
    "swap": ("a, b = Net(), Net()\na, b = b, a\n", [(2, "a", "same"), (2, "b", "same")]),
    "wrapper": ("m = Net()\nm = nn.DataParallel(m)\n", [(2, "m", "wrapper")]),
    "wrapper of a wrapper": ("m = nn.DataParallel(torch.compile(Net()))\n", [(1, "m", "wrapper")]),
    "unwrapped": ("m = nn.DataParallel(Net())\nn = m.module\n", [(1, "m", "wrapper"), (2, "n", "unwrap")]),
    "loss": ("l = nn.CrossEntropyLoss()\nl = l.cuda()\n", [(1, "l", "no-params"), (2, "l", "no-params")]),
    "container of layers without parameters": ("f = nn.Sequential(nn.ReLU(), nn.Flatten())\n", [(1, "f", "no-params")]),
    "part": ("m = Net()\nb = m.body\n", [(2, "b", "submodule")]),
    "output of an element": (
        "m = nn.ModuleList([Net()])\ny = m[0](x).to('cpu')\n",
        [(1, "list(m)", "submodule")],
    ),
    "element": ("m = nn.ModuleList([Net()])\nb = m[0]\n", [(1, "list(m)", "submodule"), (2, "b", "submodule")]),
    "absorbed": ("a = nn.Linear(1, 1)\nm = Net(a)\n", [(1, "a", "absorbed")]),
    "absorbed by whatever has add_module": (
        "def convert(old):\n    a = nn.Linear(1, 1)\n    old.add_module('a', a)\n",
        [(2, "a", "absorbed")],
    ),
    "absorbed by keyword": ("a = nn.Linear(1, 1)\nm = Net(inner=a)\n", [(1, "a", "absorbed")]),
    "absorbed through a function": (
        "def build(part):\n    return Net(part)\na = nn.Linear(1, 1)\nm = build(a)\n",
        [(2, "return", "same"), (3, "a", "absorbed")],
    ),
    "added": ("m = Net()\nm.add_module('x', nn.Linear(1, 1))\n", []),
    "set as an attribute": ("m = Net()\nm.head = nn.Linear(1, 1)\n", [(2, "m.head", "submodule")]),
    "scripted": ("m = Net()\ns = torch.jit.script(m)\n", [(2, "s", "derived")]),
    "state dict": ("m = Net()\ns = m.state_dict()\n", [(2, "s", "not-module")]),
    "a class that is called for its own call": (
        "class A:\n    pass\nA.__call__ = A()\nA()()\n",
        [(3, "A.__call__", "not-module")],
    ),
    "in an f-string": ("x = f'{print} {f(Net())}'\n", [(1, "Net()", "temporary")]),
    "key of a dict": ("d = {Net(): 1}\n", []),
    "words that others use too": ("import lib\nn = lib.f()\nn.children\nn.parameters\nn.modules()\n", []),
    "loss by its use": (
        "import lib\nm = Net()\nf = lib.make()\nf(m(x), y).backward()\n",
        [(3, "f", "no-params")],
    ),
    "bound by a partial application": (
        "import functools\ndef f(a, b):\n    return b\nm = Net()\nn = functools.partial(f, 1)(m)\n",
        [(5, "n", "same")],
    ),
    "by another name of a container": (
        "d = {}\ne = d\nd['a'] = Net()\ne['a'] = nn.Linear(1, 1)\nm = d['a']\n",
        [(5, "m", "same")],
    ),
    "temporary": ("print(Net())\n", [(1, "Net()", "temporary")]),
    "plain class": ("class Model:\n    pass\nm = Model()\n", [(3, "m", "not-module")]),
    "proxied by hand": (
        "import proxy_wrapper.proxy as P\nm = Net()\nm = P.Proxy(m)\nn = P.Proxy(Net().to('cpu'))\n",
        [(2, "m", "proxied"), (3, "m", "proxied"), (4, "n", "proxied")],
    ),
    "same by name": ("import lib\nm = Net()\nm = lib.prepare(m)\nm.eval()\n", [(3, "m", "same")]),
    "kept by a library's object": (
        "import lib\nm = Net()\nt = lib.Trainer(model=m)\nn = t.model\nn.eval()\n",
        [(3, "t", "not-module"), (4, "n", "same")],
    ),
}


@pytest.mark.parametrize("handed_on", ["model.module", "nn.DataParallel(model)"])
@pytest.mark.parametrize("use", ["model.to('cpu')", "model.append(nn.Linear(1, 1))", "model.register_module('a', x)"])
def test_a_function_may_hand_its_own_argument_on_to_itself_wrapped_or_unwrapped(handed_on: str, use: str) -> None:
    body = f"""\
        def again(model, times):
            m = {use}
            return again({handed_on}, times - 1) if times else model
        net = again(nn.Sequential(), 2)
        """
    assert (4, "arg0") in wraps(body)


@pytest.mark.parametrize(("body", "wanted"), TOLD.values(), ids=TOLD.keys())
def test_the_others_are_told_apart(body: str, wanted: list[tuple[int, str, str]]) -> None:
    assert others(body) == wanted


def test_what_may_stay_out_of_the_composite_is_wrapped_itself() -> None:
    assert wraps("a = nn.Linear(1, 1)\nif x:\n    m = Net(a)\n") == [(1, "a"), (3, "m")]
    assert wraps("a = nn.Linear(1, 1)\nprint(Net(a))\na.train()\n") == [(1, "a")]


def test_a_wrap_waits_for_the_parameters_that_stay() -> None:
    assert wraps("with torch.device('meta'):\n    m = Net()\nm.to_empty(device='cpu')\n") == [(3, "m")]


def test_wrapped_at_says_where() -> None:
    (first, second) = (each for each in decide("m = Net()\nn = m\n") if each.line > FIRST)
    assert (first.verdict, first.aliases, first.object) == ("wrap", (("n", FIRST + 2),), "Net")
    assert (second.verdict, second.wrapped_at, second.relation) == ("merged", FIRST + 1, "same")
    assert second.reason == f"another name of the object wrapped at line {FIRST + 1}"


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        pytest.param(Settings(select=("a",)), [(1, "a")], id="a name"),
        pytest.param(Settings(select=("self.*",)), [(5, "self.net")], id="attributes"),
        pytest.param(Settings(select=("net",)), [(5, "self.net")], id="an attribute by its own name"),
        pytest.param(Settings(skip=("b*",)), [(1, "a"), (5, "self.net")], id="all but some"),
        pytest.param(Settings(select=("a", "b"), skip=("a",)), [(2, "b")], id="skip wins"),
    ],
)
def test_names_select(settings: Settings, wanted: list[tuple[int, str]]) -> None:
    body = "a = Net()\nb = Net()\nclass T:\n    def f(self):\n        self.net = Net()\n"
    assert wraps(body, settings) == wanted
    codes = {each.reason_code for each in decide(body, settings) if each.line > FIRST and each.verdict != "wrap"}
    assert codes == {"deselected"}


def test_classes_and_factories_of_the_project_are_looked_up() -> None:
    net = "from torch import nn\nclass Small(nn.Module):\n    pass\nclass Config:\n    pass\n"
    build = "from net import Small\ndef build():\n    model = Small()\n    return model\nBOTH = {'s': Small}\n"
    body = "import build\nfrom net import *\nfrom net import Config\n"
    body += "a = build.build()\nb = Small()\nc = Config()\nd = build.BOTH[x]()\n"
    assert wraps(body, net=net, build=build) == [(4, "a"), (5, "b"), (7, "d")]
    assert others(body, net=net, build=build) == [(6, "c", "not-module")]


def test_broken_neighbours_do_not_matter() -> None:
    assert wraps("import broken\nm = broken.Net()\nm.eval()\n", broken="def (:\n") == [(2, "m")]


def test_neighbours_that_import_each_other_do_not_matter() -> None:
    a = "from b import Net\nclass Own(Net):\n    pass\n"
    b = "from a import Own\nfrom torch.nn import Module\nclass Net(Module):\n    pass\n"
    assert wraps("from a import Own\nm = Own()\n", a=a, b=b) == [(2, "m")]
    assert wraps("from a import X\nm = X()\n", a="from b import X\n", b="from a import X\n") == []


@pytest.mark.parametrize(
    ("body", "confidence"),
    [
        pytest.param("m = Net()\n", "certain", id="a class"),
        pytest.param("m = copy.deepcopy(Net())\n", "certain", id="a copy of one"),
        pytest.param("net = Net()\nm = copy.deepcopy(net.inner)\n", "likely", id="a copy of what is in one"),
        pytest.param("import lib\nm = lib.make()\nm.parameters()\n", "likely", id="its parameters are asked for"),
        pytest.param("import lib\nm = lib.make()\nm.train()\nm(1)\n", "likely", id="it is trained and called"),
        pytest.param("import lib\nm = lib.make()\nm.to(1)\nm(1)\n", "possible", id="it is moved and called"),
        pytest.param(
            "import lib, transformers\nm = lib.make()\ntransformers.Trainer(args=1, model=m)\n",
            "likely",
            id="a trainer gets it",
        ),
        pytest.param(
            "import lib\nimport lightning as L\nm = lib.make()\ntrainer = L.Trainer()\ntrainer.fit(m, 1)\n",
            "likely",
            id="a trainer's method gets it",
        ),
        pytest.param(
            "import lib, wandb\ndef watch(net):\n    wandb.watch(net)\nm = lib.make()\nwatch(m)\n",
            "likely",
            id="it is watched",
        ),
    ],
)
def test_how_sure_it_is(body: str, confidence: str) -> None:
    (decision,) = [
        each
        for each in decide(body, Settings(min_confidence="possible"))
        if each.verdict == "wrap" and each.target == "m"
    ]
    assert decision.confidence == confidence


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        pytest.param("m = torch.load(p)['model'].to(1)\nm.parameters()\n", [(1, "m")], id="an element, moved"),
        pytest.param("c = torch.load(p)\nm = c['model'].float().train()\nm.eval()\n", [(2, "m")], id="by two methods"),
        pytest.param(
            "import lib\nw = lib.w()\nm = w.net.cuda()\nm.state_dict()\nm(1)\n", [(3, "m")], id="an attribute"
        ),
        pytest.param(
            "import lib\nw = lib.w()\ndef make():\n    return w.net.to(1)\nm = make()\nm.parameters()\n",
            [(5, "m")],
            id="returned",
        ),
        pytest.param("import lib\nb = lib.batch()\nx = b['x'].to(1)\ny = b['y'].float()\nx(y)\n", [], id="a tensor"),
        pytest.param(
            "def make(w):\n    return w.net.to(1)\nclass Own:\n    def net(self):\n        return self.inner.to(1)\n",
            [],
            id="of what the caller has",
        ),
    ],
)
def test_what_is_fetched_from_where_nobody_sees_is_judged_by_its_use(body: str, wanted: list[tuple[int, str]]) -> None:
    assert wraps(body) == wanted


def test_what_a_library_has_under_a_computed_name_is_judged_by_its_use() -> None:
    body = "import transformers, trl\nkind = getattr(transformers, name)\nm = kind.from_pretrained('x')\n"
    assert wraps(body + "t = trl.OnlineDPOTrainer(model=m)\n") == [(3, "m")]
    assert wraps(body + "x = m('a text')\n") == []


def test_what_a_trainer_gets_besides_is_no_module() -> None:
    body = "import lib\nfrom ignite.engine import create_supervised_trainer\nm, data = lib.make(), lib.load()\n"
    body += "trainer = create_supervised_trainer(m, 1, 2)\ntrainer.run(data, max_epochs=1)\n"
    assert wraps(body) == [(3, "m")]


def test_what_a_policy_acts_in_is_no_module() -> None:
    body = """
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnvWrapper
class Normalized(VecEnvWrapper):
    def eval(self):
        self.training = False
class OnDevice(VecEnvWrapper):
    def reset(self):
        return self.venv.reset().to(self.device)
def normalized(envs):
    return envs if isinstance(envs, Normalized) else normalized(envs.venv)
def make_envs(makers):
    return OnDevice(Normalized(DummyVecEnv(makers)))
def evaluate(makers):
    envs = make_envs(makers)
    normalized(envs).eval()
    return envs.reset()
"""
    assert wraps(body) == []


def test_only_what_is_sure_enough_is_wrapped() -> None:
    body = "import lib\na = Net()\nb = lib.make()\nb.parameters()\nc = lib.make()\nc.to(1)\nc(1)\n"
    assert wraps(body) == [(2, "a"), (3, "b")]
    assert wraps(body, Settings(min_confidence="certain")) == [(2, "a")]
    assert wraps(body, Settings(min_confidence="possible")) == [(2, "a"), (3, "b"), (5, "c")]
    (refused,) = [each for each in decide(body) if each.target == "c" and each.line == FIRST + 5]
    assert (refused.reason_code, refused.confidence) == ("unsure", "possible")
    assert "--min-confidence possible" in refused.reason


class TestHeldModels:
    """Models that libraries make for objects of their own: the proxy goes behind the line that names the object."""

    @pytest.mark.parametrize(
        ("body", "wanted"),
        [
            (
                "from stable_baselines3 import PPO\nagent = PPO('MlpPolicy', env)\nagent.learn(9)\n",
                [(2, "agent.policy")],
            ),
            ("import stable_baselines3 as sb\nagent = sb.PPO.load('agent.zip', env)\n", [(2, "agent.policy")]),
            ("from sb3_contrib.tqc import TQC\nself.agent = TQC('MlpPolicy', env)\n", [(2, "self.agent.policy")]),
            ("from trl import SFTTrainer\nt = SFTTrainer('Qwen/Qwen3-0.6B', train_dataset=d)\n", [(2, "t.model")]),
            ("import trl\nt: trl.DPOTrainer = trl.DPOTrainer(model=options.model)\n", [(2, "t.model")]),
            ("from trl import GRPOTrainer\nclass T(GRPOTrainer): ...\nt = T(model='m')\nt.train()\n", [(3, "t.model")]),
            (
                "import trl\ndef run():\n    name = 'Qwen/Qwen3-0.6B'\n    t = trl.SFTTrainer(name)\n",
                [(4, "t.model")],
            ),
            ("from fastai.vision.learner import vision_learner\nlearn = vision_learner(d, r)\n", [(2, "learn.model")]),
            (
                "from stable_baselines3 import A2C, PPO\nkinds = {'a2c': A2C, 'ppo': PPO}\na = kinds[k]('M', env)\n",
                [(3, "a.policy")],
            ),
            ("import stable_baselines3 as sb\nkind = sb.PPO\na = kind('MlpPolicy', env)\n", [(3, "a.policy")]),
            (
                "from trl import DPOTrainer, SFTTrainer\nkind = DPOTrainer if pairs else SFTTrainer\nt = kind('m')\n",
                [(3, "t.model")],
            ),
            ("from fastai.vision.all import *\nlearn = vision_learner(d, resnet34)\n", [(2, "learn.model")]),
        ],
    )
    def test_get_a_line_of_their_own(self, body: str, wanted: list[tuple[int, str]]) -> None:
        assert wraps(body) == wanted

    def test_are_told_of_with_what_makes_them(self) -> None:
        (told,) = [each for each in decide("import trl\nt = trl.SFTTrainer('m')\n") if each.target == "t.model"]
        assert (told.object, told.confidence, told.read_at) == ("trl.SFTTrainer", "likely", "catalogue")
        assert told.reason == "a new module, created by trl.SFTTrainer"

    @pytest.mark.parametrize(
        ("body", "wanted"),
        [
            ("import trl\nm = Net()\nt = trl.SFTTrainer(m)\n", [(2, "m")]),
            ("import trl\nt = trl.SFTTrainer(model=Net())\n", [(2, "arg:model")]),
            ("import trl, lib\nm = lib.load('m')\nt = trl.SFTTrainer(model=m)\n", [(2, "m")]),
            ("import trl\ndef run(model):\n    t = trl.SFTTrainer(model)\n", []),
            ("import trl\nt = trl.SFTTrainer(*given)\n", []),
            ("import trl\nt = trl.SFTTrainer(train_dataset=d)\n", []),
            ("import trl\nt = trl.SFTConfig('m')\n", []),
            ("from stable_baselines3 import PPO\na = PPO('M', env, _init_setup_model=False)\n", []),
            (
                "import trl\nclass T(trl.SFTTrainer):\n    @property\n    def model(self): ...\nt = T('m')\n",
                [],
            ),
        ],
    )
    def test_are_none_where_a_model_is_passed(self, body: str, wanted: list[tuple[int, str]]) -> None:
        assert wraps(body) == wanted

    @pytest.mark.parametrize(
        "made",
        [
            "PPO('MlpPolicy', env).learn(9)",
            "agent = PPO('MlpPolicy', env).learn(9)",
            "a, b = PPO('M', e), 1",
            "box().agent = PPO('M', e)",
        ],
    )
    def test_that_no_name_holds_before_they_are_used_are_told_of(self, made: str) -> None:
        body = f"from stable_baselines3 import PPO\n{made}\n"
        assert wraps(body) == []
        assert (2, "stable_baselines3.PPO.policy", "out-of-sight") in others(body)

    def test_of_classes_that_are_given_need_no_other_proxy(self) -> None:
        body = GIVEN + "from stable_baselines3 import A2C\na = A2C('M', policy_kwargs=dict(extractor_class=Own))\n"
        assert wraps(body) == [(6, "a.policy")]

    def test_can_be_left_out(self) -> None:
        body = "from stable_baselines3 import PPO\nagent = PPO('MlpPolicy', env){}\n"
        assert wraps(body.format("  # instrument: skip")) == []
        assert wraps(body.format(""), Settings(skip=("agent.policy",))) == []
        assert wraps(body.format(""), Settings(skip=("stable_baselines3.*",))) == []
        assert wraps(body.format(""), Settings(min_confidence="certain")) == []
        assert wraps(body.format(""), Settings(select=("agent.policy",))) == [(2, "agent.policy")]


GIVEN = """\
class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 2)
"""
FREE = """\
class Free(nn.Module):
    def __init__(self):
        super().__init__()
    def forward(self, x):
        return x
"""
OUTER = """\
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.own = Own()
"""
KEEPER = """\
import collections
class Keeper(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = collections.defaultdict(Own)
        self.body = nn.Linear(1, 1)
"""


class TestGivenClasses:
    """Classes that a library makes objects of: the proxy goes to the end of their initialisers."""

    @pytest.mark.parametrize(
        "body",
        [
            "import skorch\nt = skorch.NeuralNetClassifier(Own, max_epochs=3)\nt.fit(x, y)\n",
            "from skorch.regressor import NeuralNetRegressor\nt = NeuralNetRegressor(module=Own)\n",
            "from lightning.pytorch.cli import LightningCLI\nLightningCLI(Own)\n",
            "from pytorch_lightning.cli import LightningCLI\ndef main():\n    LightningCLI(Own, run=False)\nmain()\n",
            "from lightning.pytorch.cli import LightningCLI\nclass CLI(LightningCLI): ...\nCLI(Own)\n",
            "import lib\nfrom lightning.pytorch.cli import LightningCLI as L\nclass CLI(lib.Mixin, L): ...\nCLI(Own)\n",
            "import jsonargparse\nown = jsonargparse.auto_cli(Own)\n",
            "from torchensemble import VotingClassifier\nt = VotingClassifier(estimator=Own, n_estimators=2)\n",
            "from stable_baselines3 import A2C\nkinds = dict(extractor_class=Own)\nA2C('M', policy_kwargs=kinds)\n",
            "import collections, functools\nt = collections.defaultdict(functools.partial(Own))\n",
            "from collections import defaultdict\ndef table(made):\n    return defaultdict(made)\nt = table(Own)\n",
        ],
    )
    def test_get_the_proxy_in_their_initialiser(self, body: str) -> None:
        assert wraps(GIVEN + body) == [(4, "self")]

    def test_are_told_of_with_what_makes_them(self) -> None:
        (told,) = [each for each in decide(GIVEN + "import skorch\nskorch.NeuralNet(Own)\n") if each.target == "self"]
        assert (told.object, told.confidence, told.class_names) == ("Own", "likely", ("Own",))
        assert told.reason == f"a new module, created from its class by skorch.NeuralNet, line {FIRST + 6}"

    def test_may_be_made_objects_of_by_what_is_not_known(self) -> None:
        body = GIVEN + "import lib\nlib.run(Own)\n"
        assert wraps(body) == []
        assert (4, "self", "unsure") in others(body)
        assert wraps(body, Settings(min_confidence="possible")) == [(4, "self")]

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param(GIVEN + OUTER, id="parts of other modules, too"),
            pytest.param(GIVEN + "class Below(Own): ...\n", id="with a class below it"),
            pytest.param(
                GIVEN.replace("super().__init__()\n", "super().__init__()\n        if 1: return\n"), id="may end early"
            ),
            pytest.param("class Own(Net): ...\n", id="without an initialiser"),
            pytest.param(GIVEN.replace("    def", "    @deco\n    def"), id="with a decorator"),
        ],
    )
    def test_are_told_of_where_no_proxy_can_stand_in_them(self, body: str) -> None:
        found = decide(body + "import skorch\nskorch.NeuralNet(Own)\n")
        assert [each.reason_code for each in found if each.target == "Own"] == ["out-of-sight"]
        assert not [each for each in found if each.verdict == "wrap" and each.target == "self"]

    def test_have_their_only_proxy_there_for_what_the_script_makes_itself(self) -> None:
        body = (
            GIVEN
            + "import skorch\nskorch.NeuralNet(Own)\ndef build():\n    return Own()\na = build()\nb = a\nc = Own()\n"
        )
        assert wraps(body) == [(4, "self")]
        assert [each for each in others(body) if each[2] == "same"] == [
            (9, "a", "same"),
            (10, "b", "same"),
            (11, "c", "same"),
        ]
        assert wraps(body, Settings(min_confidence="certain")) == [(9, "a"), (11, "c")]

    @pytest.mark.parametrize(
        ("body", "settings", "code"),
        [
            (GIVEN.replace("Module):", "Module):  # instrument: skip"), None, "suppressed"),
            (GIVEN.replace("2, 2)", "2, 2)  # instrument: skip"), None, "suppressed"),
            (GIVEN, Settings(skip=("Own",)), "deselected"),
            (GIVEN, Settings(select=("model",)), "deselected"),
            (GIVEN, Settings(min_confidence="certain"), "unsure"),
            (
                "import proxy_wrapper.proxy as Proxy\n" + GIVEN + "        Proxy.Proxy(self)\n",
                None,
                "proxied",
            ),
        ],
    )
    def test_can_be_left_out(self, body: str, settings: Settings | None, code: str) -> None:
        found = decide(body + "import skorch\nskorch.NeuralNet(Own)\n", settings)
        assert [each.reason_code for each in found if each.target == "self"] == [code]

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param("print(isinstance(x, Own), Own)\n", id="only looked at"),
            pytest.param("class Plain: ...\nimport skorch\nskorch.NeuralNet(Plain)\n", id="none of modules"),
            pytest.param(FREE + "import skorch\nskorch.NeuralNet(criterion=Free)\n", id="without parameters"),
            pytest.param(KEEPER, id="parts of a module"),
        ],
    )
    def test_are_no_others(self, body: str) -> None:
        assert wraps(GIVEN + body, Settings(min_confidence="possible")) == []

    def test_are_told_of_where_another_file_gives_them(self) -> None:
        files = {"own.py": (HEAD + GIVEN).encode()}
        script = b"from own import Own\nimport skorch\nskorch.NeuralNet(Own)\n"
        result = instrument_source(
            script, Settings(), source_name="x.py", sources=Sources(files.get), is_alone=True, looks_elsewhere=True
        )
        assert not result.changed
        assert result.elsewhere == ("own.py",)


class TestUserCatalogue:
    """`[tool.instrumentor]` says what neither a source nor the use of an object tells."""

    def test_factories(self) -> None:
        body = "import lib\nm = lib.zoo.pick(3)\n"
        assert wraps(body) == []
        assert wraps(body, Settings(factories=("lib.zoo.*",))) == [(2, "m")]

    def test_factories_of_the_project(self) -> None:
        files = {"zoo": "import json\ndef pick(path):\n    return json.loads(path).x\n"}
        body = "import zoo\nm = zoo.pick('a')\n"
        assert wraps(body, None, **files) == []
        assert wraps(body, Settings(factories=("zoo.pick",)), **files) == [(2, "m")]

    def test_wrappers(self) -> None:
        body = "import lib\nm = Net()\nw = lib.shard(m)\n"
        (merged,) = [each for each in decide(body, Settings(wrappers=("lib.shard",))) if each.target == "w"]
        assert (merged.verdict, merged.relation) == ("merged", "wrapper")

    def test_identity_methods(self) -> None:
        body = "m = Net()\nn = m.to_fast()\n"
        (merged,) = [each for each in decide(body, Settings(identity_methods=("to_fast",))) if each.target == "n"]
        assert (merged.verdict, merged.relation) == ("merged", "same")

    def test_classes_of_the_project(self) -> None:
        files = {"odd": "class Odd:\n    pass\n"}
        body = "from odd import Odd\nm = Odd()\n"
        assert wraps(body, None, **files) == []
        assert wraps(body, Settings(module_classes=("odd.Odd",)), **files) == [(2, "m")]

    def test_skip_takes_names_of_objects_too(self) -> None:
        body = "import torchvision\nm = torchvision.models.resnet18()\n"
        assert wraps(body) == [(2, "m")]
        assert wraps(body, Settings(skip=("torchvision.models.*",))) == []


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("m = Net()\nn = Net()\nfor i in x:\n    m, n = n, m\n    k = m\nl = m\n", id="swapped in a loop"),
        pytest.param("m = Net()\nx and (m := Net())\nk = m\n", id="a walrus that may not run"),
        pytest.param("a = [Net(), Net()]\nm = a[0]\na.reverse()\nk = a[0]\n", id="an element that moves"),
        pytest.param(
            "class T:\n    pass\nt = T()\nu = t\nt.net = Net()\nm = t.net\nu.net = Net()\nk = t.net\n", id="an alias"
        ),
        pytest.param("m = Net()\ndef f():\n    global m\n    m = Net()\nf()\nk = m\n", id="a global"),
        pytest.param("m = Net()\n[(m := Net()) for i in x]\nk = m\n", id="a walrus in a comprehension"),
    ],
)
def test_what_may_be_another_object_is_not_called_the_same(body: str) -> None:
    named = {(each.line, each.target): each.identity for each in decide(body)}
    last = max(line for line, target in named if target in {"k", "l"})
    (identity,) = {name for (line, _), name in named.items() if line == last}
    assert [place for place, name in named.items() if name == identity and identity is not None] in (
        [],
        [(last, "k")],
        [(last, "l")],
    )


def test_what_is_one_object_whichever_branch_made_it_has_one_identity() -> None:
    told = decide("if x:\n    m = Net()\nelse:\n    m = nn.Linear(1, 1)\nn = m\nk = n\n")
    identities = {each.target: each.identity for each in told if each.line > FIRST + 4}
    assert identities["n"] is not None
    assert identities["n"] == identities["k"]
    (n,) = (each for each in told if each.target == "n")
    assert (n.wrapped_at, n.alternatives, n.confidence) == (FIRST + 2, (FIRST + 4,), "certain")


def test_an_object_that_a_function_keeps_has_its_proxy_there_whatever_becomes_of_it() -> None:
    body = """\
        import functools
        @functools.cache
        def shared():
            return Net()
        for each in range(2):
            model = Net(shared())
        """
    assert wraps(body) == [(4, "return"), (6, "model")]


def test_what_an_exception_may_keep_from_becoming_a_part_has_its_own_proxy() -> None:
    body = """\
        try:
            inner = Net()
            check()
            model = Net(inner)
        except ValueError:
            model = inner
        """
    assert wraps(body) == [(2, "inner"), (4, "model")]


def test_what_a_function_may_not_hand_on_before_it_becomes_a_part_has_its_own_proxy() -> None:
    body = """\
        kept = Net()
        def wrapped(model):
            if torch.cuda.is_available():
                return model
            return Net(model)
        def either(model):
            return model if torch.cuda.is_available() else kept
        model = wrapped(Net())
        other = Net(either(Net()))
        """
    assert (8, "arg0") in wraps(body)
    assert (9, "arg0") not in wraps(body)  # If it does not become a part, nothing uses it.


def test_what_a_name_held_before_is_not_what_the_same_statement_makes() -> None:
    body = """\
        first = Net()
        for each in range(2):
            first, whole = Net(), Net(first)
        """
    assert wraps(body) == [(1, "first"), (3, "first"), (3, "whole")]


def identities(body: str) -> dict[tuple[int, str], str | None]:
    """What decisions call the objects of the body, by (line, target)."""
    return {(each.line - FIRST, each.target): each.identity for each in decide(body)}


def test_an_object_is_followed_through_what_hands_it_back() -> None:
    body = """\
        import random
        model = random.choice([Net(), Net()])
        def same(module, times=1):
            return module
        def keep(module=model):
            return module
        one = same(model)
        two = same(module=one)
        three = keep()
        four = keep(Net())
        """
    found = identities(body)
    names = [found[line, name] for line, name in ((7, "one"), (8, "two"), (9, "three"))]
    assert names == [found[2, "model"]] * 3
    assert found[10, "four"] != found[2, "model"]


def test_an_argument_is_the_one_before_the_call_changes_its_name() -> None:
    body = """\
        model = Net()
        def renew(module):
            global model
            model = Net()
            return module
        while torch.rand(1) < 0.5:
            old = renew(model)
            new = model
        """
    found = identities(body)
    assert found[7, "old"] != found[8, "new"]


def test_a_function_called_once_names_its_objects_as_its_caller_does() -> None:
    body = """\
        import random
        def choose(given):
            inner = given
            made = Net() if random.random() < 0.5 else Net()
            return made
        first = random.choice([Net(), Net()])
        second = choose(first)
        def keep(module=None):
            kept = module
        keep()
        keep(first)
        """
    found = identities(body)
    assert found[3, "inner"] == found[9, "kept"] == found[6, "first"]
    assert found[4, "made"] == found[7, "second"]


def test_what_all_calls_pass_is_one_object_in_the_function_too() -> None:
    body = """
        def train(module, hook=None):
            trained = module.train()
            return trained
        model = Net() if torch.cuda.is_available() else nn.Linear(1, 1)
        for _ in range(2):
            same = train(model)
        train(model, None)
        def change(module):
            changed = module
        for _ in range(2):
            other = Net() if torch.cuda.is_available() else nn.Linear(1, 1)
            change(other)
        """
    found = identities(body)
    assert found[2, "trained"] == found[6, "same"] == found[4, "model"] is not None
    assert found[9, "changed"] != found[11, "other"]


def test_the_elements_of_what_a_function_is_passed_are_whole_objects() -> None:
    body = """
        def train(models):
            first, second = models
            for model in models:
                model.train()
        train([Net(), Net()])
        """
    found = {(line, target): word for line, target, word in others(body)}
    assert found[2, "first"] == found[2, "second"] == found[3, "model"] == "same"


def test_what_is_taken_from_the_parts_of_a_module_is_part_of_it() -> None:
    body = """
        def extend(model):
            for name, part in model.named_children():
                part.extra = nn.Linear(1, 1)
            name, last = list(model.named_children())[-1]
            last[0] = nn.Linear(1, 1)
            model.modules().extra = nn.Linear(1, 1)
        """
    assert [each for each in wraps(body) if each[0] < 6] == []


def test_what_wraps_a_model_or_none_makes_no_model_of_its_own() -> None:
    body = """
        class Builder:
            def build(self):
                return Net()
        model = Builder().build()
        for name, module in [("a", model), ("b", None)]:
            if module is not None:
                module = nn.parallel.DistributedDataParallel(module)
        """
    assert [target for _, target in wraps(body)] == ["model"]


def test_of_many_classes_only_a_few_are_named() -> None:
    classes = "".join(f"class Net{number}(Net): pass\n" for number in range(6))
    names = ", ".join(f"Net{number}" for number in range(6))
    result = instrument_source(
        f"{HEAD}{classes}import random\ntrain(random.choice([{names}])())\n".encode(), Settings(), source_name="x.py"
    )
    (found,) = [each for each in result.decisions if each.verdict == "wrap"]
    assert found.object == "Net0, Net1, Net2 or one of 3 more"
    assert b'name="Net0, Net1, Net2 or one of 3 more"' in result.instrumented


def test_an_object_is_followed_into_new_instances_and_through_contexts() -> None:
    body = """\
        import contextlib, random
        class Trainer:
            def __init__(self, net):
                self.net = net
            def __enter__(self):
                return self.net
            def __exit__(self, *exc):
                pass
        @contextlib.contextmanager
        def lend(module):
            yield module
        model = random.choice([Net(), Net()])
        trainer = Trainer(model)
        mine = Trainer(model)
        two = mine.net
        with Trainer(model) as three:
            with lend(three) as four:
                pass
        """
    found = identities(body)
    names = [(15, "two"), (16, "three"), (17, "four")]
    assert [found[name] for name in names] == [found[12, "model"]] * 3


def test_an_inline_proxy_and_the_name_beside_it_are_of_one_object() -> None:
    body = """\
        import random
        old = Net()
        while random.random() < 0.5:
            one = other = (old if random.random() < 0.5 else Net())
        """
    found = identities(body)
    assert found[4, "one"] == found[4, "other"] is not None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("print(f'{(m := Net())(1)}')", id="called there"),
        pytest.param("print(f'{keep(m := Net())}')", id="passed on there"),
        pytest.param("print(f'{(m := Net())}', m(1))", id="called behind it"),
        pytest.param("print(f'{x or (m := Net())}')", id="not always made"),
        pytest.param("print([f'{(m := Net())}' for _ in x])", id="made again and again"),
        pytest.param("if f'{(m := Net())}':\n    print()", id="in the head of a block"),
    ],
)
def test_where_no_proxy_can_stand_in_a_text_that_is_said(text: str) -> None:
    assert {each[1:] for each in others(f"{text}\nm.parameters()\n")} >= {("m", "out-of-sight")}


@pytest.mark.parametrize(
    ("decorator", "text"),
    [
        pytest.param("new", "def new(cls):\n    return cls()\n", id="as it stands"),
        pytest.param("new(1)", "def new(_):\n    def make(cls):\n        return cls()\n    return make\n", id="called"),
        pytest.param("new(1)", "def new(_):\n    return lambda cls: cls()\n", id="called for a lambda"),
    ],
)
def test_what_another_files_decorator_makes_of_a_class_has_a_line_behind_the_class(decorator: str, text: str) -> None:
    assert wraps(f"from own import new\n@{decorator}\nclass m(Net):\n    pass\nm(1)\n", own=text) == [(3, "m")]


def test_copies_that_are_only_saved_get_no_proxy() -> None:
    body = """\
        model = Net()
        checkpoint = torch.load("a.pt")
        print(checkpoint["epoch"])
        for epoch in range(2):
            checkpoint = {"model": copy.deepcopy(model).half(), "epoch": epoch}
            torch.save(checkpoint, "a.pt")
        torch.save([copy.deepcopy(model)], "b.pt")
        used = {"model": copy.deepcopy(model)}
        torch.save(used, "c.pt")
        used["model"].train()
        """
    assert wraps(body) == [(1, "model"), (8, 'used["model"]')]


def test_of_objects_that_two_names_may_hold_either_way_round_one_is_left() -> None:
    body = """\
        one, two = Net(), Net()
        if torch.cuda.is_available():
            one, two = two, one
        whole = Net(one)
        """
    assert wraps(body) == [(1, "one"), (1, "two"), (4, "whole")]


def test_an_operand_in_an_argument_is_not_what_the_statement_binds() -> None:
    body = """\
        import random
        other = Net()
        def kept(module):
            return other
        model = kept(random.random() < 0.5 and Net() or other)
        """
    assert wraps(body) == [(2, "other"), (5, "expression")]
    assert identities(body)[5, "model"] == identities(body)[2, "other"]


def test_an_object_that_an_inner_function_replaces_is_not_the_one_returned() -> None:
    body = """\
        def build():
            model = Net()
            def renew():
                nonlocal model
                model = Net()
            renew()
            return model
        model = build()
        """
    assert (2, "model") in wraps(body)


def test_what_a_function_may_give_instead_leaves_the_other_argument_a_proxy() -> None:
    body = """\
        other = Net()
        def either(one, two):
            return one if torch.cuda.is_available() else two
        model = other
        if torch.cuda.is_available():
            model = Net()
        whole = Net(either(other, model))
        """
    assert wraps(body) == [(1, "other"), (6, "model"), (7, "whole")]


def test_an_object_that_is_replaced_by_one_that_its_name_may_have_held_is_not_returned() -> None:
    body = """\
        def build():
            other = Net()
            model = other
            if torch.cuda.is_available():
                model = Net()
            model.train()
            model = other
            return model
        model = build()
        """
    assert (5, "model") in wraps(body)


def test_all_lines_are_told_whose_proxy_may_cover_an_object() -> None:
    body = """\
        model = Net()
        if torch.cuda.is_available():
            model = Net()
            whole = nn.Sequential(nn.Sequential(model))
        again = model
        """
    (found,) = [each for each in decide(body) if each.target == "again"]
    assert found.wrapped_at == FIRST + 1
    assert found.alternatives == (FIRST + 4,)


def test_a_model_of_another_file_that_gets_other_parameters_there_is_that_files() -> None:
    net = """
        from torch import nn
        net = nn.Linear(2, 2)
        other = 1
        net.to_empty(device="cpu")
        """
    assert wraps("import net\nmodel = net.net\nmodel(1)", net=net) == []


def test_what_is_taken_from_a_model_that_only_a_later_statement_makes_is_part_of_it() -> None:
    body = """\
        def train():
            last_layer = list(model.children())[-1]
            for parameter in last_layer.parameters():
                print(parameter)
        def get(name):
            model = Net()
            return model
        model = get("net")
        train()
        """
    assert wraps(body) == [(8, "model")]
    assert (2, "last_layer", "submodule") in others(body)


METHODS_OF_A_PLAIN_LIST = """\
class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = []
        self.build()
    def build(self):
        self.layers.append(Net())
        self.more = nn.ModuleList()
    def add(self, layer):
        self.layers.append(layer)
    def extend(self):
        self.more.append(Net())
holder = Holder()
net = Net()
holder.add(net)
holder.add(Net())
holder.layers.append(Net())
holder.extend()
"""


def test_what_a_class_of_modules_keeps_in_a_plain_list_is_no_part_of_them() -> None:
    body = """\
        class Holder(nn.Module):
            layers = []
            def build(self):
                self.layers.append(Net())
                self.last = Net()
        """
    assert wraps(body) == [(4, "self.layers[*]")]


def test_what_any_method_puts_into_a_plain_list_of_a_module_is_no_part_of_it() -> None:
    assert wraps(METHODS_OF_A_PLAIN_LIST) == [
        (7, "self.layers[*]"),
        (13, "holder"),
        (14, "net"),
        (16, "holder[*]"),
        (17, "holder.layers[*]"),
    ]
    assert (10, "self.layers[-1]", "same") in others(METHODS_OF_A_PLAIN_LIST)


HIDDEN_MAKERS = {
    "trainer": """\
        from torch import nn
        class Head(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner
        class Trainer:
            def __init__(self, net):
                self.model = Head(net)
        def keep(net, models=[]):
            models.append(nn.Sequential(net, nn.Softmax(-1)))
        def build(net):
            return nn.Sequential(net, nn.Softmax(-1))
        """
}


@pytest.mark.parametrize(
    ("use", "alone", "with_the_file"),
    [
        pytest.param("t = trainer.Trainer(net)", ["net"], [], id="kept in an object"),
        pytest.param("trainer.keep(net)", ["net"], [], id="kept by a function"),
        pytest.param("m = trainer.build(net)", ["m"], ["m"], id="given back"),
        pytest.param("m = trainer.Head(net)", ["m"], ["m"], id="made here"),
    ],
)
def test_a_part_of_what_another_file_makes_gets_a_proxy_where_that_file_is_left_as_it_is(
    use: str, alone: list[str], with_the_file: list[str]
) -> None:
    source = (HEAD + f"import trainer\nnet = Net()\n{use}\n").encode()
    siblings = {f"{name}.py": dedent(text).encode() for name, text in HIDDEN_MAKERS.items()}

    def found(*, is_alone: bool) -> list[str]:
        sources = Sources(siblings.get)
        result = instrument_source(source, Settings(), source_name="x.py", sources=sources, is_alone=is_alone)
        return [each.target for each in result.decisions if each.verdict == "wrap"]

    assert found(is_alone=True) == alone
    assert found(is_alone=False) == with_the_file


def test_what_becomes_part_of_a_module_is_told_with_its_class() -> None:
    reasons = {
        each.target: each.reason
        for each in decide("import trainer\nnet = Net()\nt = trainer.Trainer(net)\n", None, **HIDDEN_MAKERS)
    }
    assert (
        reasons["net"] == f"becomes part of the module built from it (Head, line {FIRST + 3}), which recursion covers"
    )


@pytest.mark.parametrize(
    "imported",
    [
        "from package import *",
        "from package import Alias",
        "from nets import *",
        "import package; Alias = package.Alias",
    ],
)
def test_another_name_of_a_class_is_known_behind_star_imports(imported: str) -> None:
    files = {
        "package": "from nets import *\nfrom tools import *\n",
        "nets": "from torch import nn\nclass Wide(nn.Module):\n    pass\nAlias = Wide\n",
        "tools": "def unrelated():\n    Alias = 1\n    return Alias\n",
    }
    assert wraps(f"{imported}\nmodel = Alias()\n", None, **files) == [(2, "model")]


def test_what_only_tensors_tell_of_is_no_part_of_a_model_worth_telling() -> None:
    body = "m = Net()\nrows, columns = m.body.weight.shape\nhead = m.body\n"
    assert others(body) == [(3, "head", "submodule")]


def test_what_either_branch_passes_on_becomes_part_of_what_it_is_put_into() -> None:
    body = """
        models = nn.ModuleList()
        models.append(Net().eval() if torch.rand(1) > 0.5 else nn.Linear(1, 1).eval())
    """
    assert wraps(body) == [(1, "models")]


@pytest.mark.parametrize(
    "annotation", ["L.Fabric", '"L.Fabric"', "L.Fabric | None", 'Optional["L.Fabric"]', "typing.Union[int, L.Fabric]"]
)
def test_a_parameter_is_of_the_librarys_class_that_its_annotation_names(annotation: str) -> None:
    body = f"""
        import typing
        from typing import Optional
        import lightning as L
        def main(fabric: {annotation}):
            net = Net()
            net = fabric.setup(net)
            loader = fabric.setup_dataloaders(make_loader())
            state = dict(net=net, loader=loader)
            fabric.load("x", state)
            state["net"].train()
        L.Fabric().launch(main)
    """
    assert wraps(body) == [(5, "net")]


@pytest.mark.parametrize("annotation", ["typing.Any", "object", "list[L.Fabric]", "Unknown", "'not one'"])
def test_an_annotation_that_tells_nothing_leaves_the_use_to_tell(annotation: str) -> None:
    body = f"""
        import typing
        import lightning as L
        def main(maker: {annotation}):
            net = maker.setup_dataloaders()
            torch.optim.SGD(net.parameters())
        L.Fabric().launch(main)
    """
    assert wraps(body) == [(4, "net")]


RECIPE = """
    from lib import Base, make
    class Recipe(Base):
        def setup(self):
            self.model = make()
        def step(self, x):
            optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
            self.model(x).sum().backward()
            optimizer.step(){more}
    recipe = Recipe()
    recipe.setup()
    recipe.step(torch.zeros(2, 2))
"""


def test_methods_tell_each_other_what_they_keep_where_a_base_cannot_be_seen() -> None:
    assert wraps(RECIPE.format(more="")) == [(4, "self.model")]


@pytest.mark.parametrize(
    "more",
    [
        "def forward(self, x):\n            return self.model(x)",
        "def training_step(self, batch):\n            return self.model(batch)",
        "def all(self):\n            return list(self.parameters())",
        "def again(self, x):\n            return self(x)",
    ],
)
def test_what_looks_like_a_module_is_left_to_its_use_where_a_base_cannot_be_seen(more: str) -> None:
    body = RECIPE.format(more=f"\n        {more}") + "    torch.optim.SGD(recipe.parameters())\n"
    assert wraps(body) == [(11, "recipe")]


def test_a_starred_tuple_gives_each_parameter_its_own_item() -> None:
    body = """
        from lib import make
        def run(loader, model, number):
            torch.optim.SGD(model.parameters(), number)
        loader, model = make(), make()
        for epoch in range(3):
            given = loader, model
            run(*given, epoch)
    """
    assert wraps(body) == [(4, "model")]


def test_what_a_starred_tuple_passes_is_known_as_the_object_it_is() -> None:
    body = """
        def train(size, model):
            kept = model
        net = Net()
        given = 3, net
        train(*given)
    """
    assert wraps(body) == [(3, "net")]
    assert (2, "kept", "same") in others(body)


def test_a_starred_tuple_of_either_length_may_give_any_parameter_any_item() -> None:
    body = """
        from lib import make
        def run(one, two, *more):
            torch.optim.SGD(two.parameters(), 1)
        first, second, third = make(), make(), make()
        given = (first, second) if third else (first, second, third)
        run(*given)
    """
    assert [target for _, target in wraps(body)] == ["first", "second", "third"]


@pytest.mark.parametrize(
    ("table", "use"),
    [
        ("TABLE = {'a': A, 'b': B}", "TABLE[name]()"),
        ("TABLE: dict = {'a': A}", "TABLE.get(name, B)()"),
        ("TABLE = [A, B]", "TABLE[0]()"),
        ("TABLE = (A, lambda: B())", "TABLE[name]()"),
    ],
)
def test_a_function_of_another_file_makes_what_a_table_there_has(table: str, use: str) -> None:
    zoo = f"""
        from torch import nn
        class A(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)
        class B(A): pass
        {table}
        def build(name):
            return {use}
    """
    assert wraps("from zoo import build\nmodel = build('a')", zoo=zoo) == [(2, "model")]


@pytest.mark.parametrize(
    ("before", "call"),
    [
        pytest.param("def main(accelerator: Accelerator):", "main(make())", id="declared"),
        pytest.param("def main(accelerator):", "main(Accelerator())", id="passed"),
        pytest.param(
            "def main(accelerator=None):", "accelerator = build()\nmain(accelerator)", id="made by a function"
        ),
    ],
)
def test_what_an_accelerator_unwraps_is_the_model(before: str, call: str) -> None:
    body = f"""
        from accelerate import Accelerator
        from lib import make
        def build():
            return Accelerator()
        {before}
            model = Net()
            model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
            plain = accelerator.unwrap_model(model)
            plain.eval()
    """
    assert wraps(dedent(body) + call + "\n") == [(6, "model")]


def test_what_one_caller_makes_of_a_model_another_need_not() -> None:
    body = """
        from accelerate import Accelerator
        from lib import make
        def main(accelerator):
            model = Net()
            plain = accelerator.unwrap_model(model)
            plain.eval()
        main(Accelerator())
        main(make())
    """
    assert wraps(body) == [(4, "model"), (5, "plain")]


def test_what_a_function_may_give_besides_an_accelerator_may_unwrap_other_things() -> None:
    body = """
        from accelerate import Accelerator
        from lib import make
        def build(wanted):
            if wanted:
                return Accelerator()
            return make()
        accelerator = build(True)
        model = Net()
        plain = accelerator.unwrap_model(model)
        plain.eval()
    """
    assert wraps(body) == [(8, "model"), (9, "plain")]


def test_a_table_in_the_body_of_another_files_class_may_hold_anything() -> None:
    body = """\
        import nets
        from factory import Factory, pick
        one = Factory.create("net")
        two = Factory.known["net"]()
        three = pick("net")
        for each in (one, two, three):
            each.parameters()
        """
    factory = """\
        import functools
        class Factory:
            known = {}
            @classmethod
            def create(cls, name):
                return cls.known[name]()
        @functools.singledispatch
        def pick(name):
            raise TypeError(name)
        """
    assert wraps(body, factory=factory, nets="") == [(3, "one"), (4, "two"), (5, "three")]
