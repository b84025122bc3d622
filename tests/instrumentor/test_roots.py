"""Programs in many styles, instrumented and run: each model that trains is under a proxy, asked for at one place."""

from __future__ import annotations

import dataclasses
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import pytest
from torch import nn

import proxy_wrapper.proxy
from instrumentor.instrument import Result, instrument_source
from instrumentor.resolve.project import Sources
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The programs put each of their models into `MODELS`, with `train` or by themselves.
HEAD = """\
import asyncio, copy, itertools
import torch
from torch import nn
MODELS = set()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 2)
    def forward(self, x):
        return self.body(x)
class Holder:
    pass
def train(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    MODELS.add(model)
"""

PROGRAMS = {
    "coroutines are gathered": """
async def build():
    return Net()
async def main():
    first, second = await asyncio.gather(*(build() for _ in range(2)))
    third = await asyncio.create_task(build())
    fourth = await asyncio.wait_for(build(), 5)
    waiting = build()
    fifth = await waiting
    for net in (first, second, third, fourth, fifth):
        train(net)
asyncio.run(main())
""",
    "a loop runs a coroutine": """
async def build():
    net = Net()
    return net
first = asyncio.run(build())
loop = asyncio.new_event_loop()
second = loop.run_until_complete(build())
loop.close()
train(first)
train(second)
""",
    "a coroutine is awaited where it is made": """
async def build():
    return Net(), Net()
async def main():
    first, second = await build()
    train(first)
    train(second)
asyncio.run(main())
""",
    "an iterator makes models": """
class Sweep:
    def __init__(self):
        self.left = 2
    def __iter__(self):
        return self
    def __next__(self):
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        return Net()
for net in Sweep():
    train(net)
""",
    "a sequence makes models": """
class Zoo:
    def __getitem__(self, index):
        if index > 1:
            raise IndexError
        return Net()
for net in Zoo():
    train(net)
train(Zoo()[0])
""",
    "what an attribute is given may be a module or not": """
for flag in (False, True):
    holder = Holder() if flag else Net()
    net = Net()
    holder.extra = net
    train(net)
""",
    "what setattr is given may be a module or not": """
for flag in (False, True):
    holder = Holder() if flag else Net()
    net = Net()
    setattr(holder, "extra", net)
    train(net)
""",
    "what is appended to may be a module or a list": """
for flag in (False, True):
    layers = [] if flag else nn.Sequential()
    net = Net()
    layers.append(net)
    train(net)
""",
    "a function appends to modules and lists": """
def put(layers, net):
    layers.append(net)
for layers in ([], nn.Sequential()):
    net = Net()
    put(layers, net)
    train(net)
""",
    "names that a table of names gets": """
for name in ("first", "second"):
    globals()[name] = Net()
vars()["third"] = Net()
train(first)
train(second)
train(third)
nets = []
nets.extend([third])
""",
    "models are made of tuples": """
class Sized(Net):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.sizes = inputs, outputs
def build(inputs, outputs):
    return Sized(inputs, outputs)
nets = list(itertools.starmap(Sized, [(4, 2), (4, 2)]))
for net in (*nets, *itertools.starmap(build, [(4, 2)])):
    train(net)
""",
    "a container of modules is written as empty": """
student, teacher = Net(), Net()
nets = nn.ModuleList([])
nets.append(student)
trained = nn.ModuleList([nn.ReLU()])
trained.append(student)
optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
nets.append(teacher)
for net in nets:
    train(net)
""",
    "a module is filled where __new__ makes it": """
class Single(nn.Module):
    held = None
    def __new__(cls):
        if cls.held is None:
            made = super().__new__(cls)
            nn.Module.__init__(made)
            made.body = nn.Linear(4, 2)
            cls.held = made
        return cls.held
    def __init__(self):
        pass
    def forward(self, x):
        return self.body(x)
train(Single())
""",
    "a layer is set from outside": """
class Shell(nn.Module):
    def forward(self, x):
        return self.head(x)
shell = Shell()
shell.head = nn.Linear(4, 2)
train(shell)
other = Shell()
other.add_module("head", nn.Linear(4, 2))
train(other)
""",
    "a match captures": """
match Net():
    case net:
        train(net)
""",
    "a class makes what it is no class of": """
class Factory:
    def __new__(cls):
        return Net()
class Counted:
    count = 0
    def __new__(cls):
        cls.count += 1
        return super().__new__(cls)
    def __init__(self):
        self.net = Net()
train(Factory())
train(Counted().net)
""",
    "an average is updated by a function": """
class Average(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.module = copy.deepcopy(model)
    def update(self, model):
        with torch.no_grad():
            for mean, new in zip(self.module.parameters(), model.parameters()):
                mean.lerp_(new, 0.1)
def epoch(net, average):
    train(net)
    average.update(net)
net = Net()
average = Average(net)
epoch(net, average)
MODELS.add(average)
""",
    "methods named like a container's": """
class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0
    def append(self, model):
        self.count += 1
def fill(bag, model):
    bag.append(model)
net = Net()
fill(Bag(), net)
train(net)
""",
    "a container of a function's own is filled by another": """
def make():
    return nn.ModuleList()
def fill(layers, layer):
    layers.append(layer)
layers = make()
fill(layers, Net())
for net in layers:
    train(net)
""",
    "a decorated function makes models": """
import functools
def decorate(function):
    @functools.wraps(function)
    def inner(*arguments):
        return function(*arguments)
    return inner
@decorate
def make():
    return Net()
net = make()
train(net)
""",
    "a kept function makes what only its use tells": """
import functools, sys
@functools.lru_cache(maxsize=None)
def make():
    return getattr(sys.modules["torch"].nn, "".join(["Lin", "ear"]))(4, 2)
net = make()
train(net)
""",
    "parameters come behind, in an argument": """
import types
with torch.device("meta"):
    net = Net()
held = types.SimpleNamespace(model=net.to_empty(device="cpu"))
net = held.model
for parameter in net.parameters():
    nn.init.zeros_(parameter)
train(net)
""",
    "a context gives what it was made of": """
import contextlib, sys
with contextlib.nullcontext(getattr(sys.modules["torch"].nn, "".join(["Lin", "ear"]))(4, 2)) as net:
    train(net)
with contextlib.nullcontext(Net()) as net:
    train(net)
with contextlib.ExitStack() as stack:
    net = stack.enter_context(contextlib.nullcontext(getattr(sys.modules["torch"].nn, "".join(["Lin", "ear"]))(4, 2)))
    train(net)
""",
    "a loop meets models that nobody knows": """
nets = eval("[nn.Linear(4, 2), nn.Linear(4, 2)]")
for net in nets:
    train(net)
""",
    "a thread fills a list with layers": """
import threading
def fill(layers):
    layers.append(nn.Linear(4, 2))
layers = [nn.ReLU()]
thread = threading.Thread(target=fill, args=(layers,))
thread.start()
thread.join()
net = nn.Sequential(*layers)
train(net)
""",
    "a worker gives what only its use tells": """
import concurrent.futures, queue, sys
def make():
    return getattr(sys.modules["torch"].nn, "".join(["Lin", "ear"]))(4, 2)
with concurrent.futures.ThreadPoolExecutor(1) as pool:
    net = pool.submit(make).result()
train(net)
waiting = queue.Queue()
waiting.put(make())
other = waiting.get()
train(other)
""",
    "a file is imported under a computed name": """
import importlib, sys, types
models = types.ModuleType("models_of_this_test")
models.Net = Net
sys.modules[models.__name__] = models
name = models.__name__
train(importlib.import_module(name).Net())
found = __import__(name)
net = found.Net().train()
train(net)
maker = importlib.import_module(name).Net
made = maker()
train(made)
""",
    "tuples of several lengths are unpacked": """
import io
file = io.BytesIO()
torch.save({"epoch": 2, "best": 0.5, "state": Net().state_dict()}, file)
def resume(model, scheduler):
    file.seek(0)
    checkpoint = torch.load(file)
    epoch = checkpoint["epoch"]
    best = checkpoint["best"]
    model.load_state_dict(checkpoint["state"])
    if scheduler is not None:
        return model, epoch, best, scheduler
    return model, epoch, best
net = Net()
net, start, best = resume(net, None)
for epoch in range(start):
    train(net)
def make(number):
    if number == 3:
        return 3, Net(), Net()
    return Net(), 2
first, *_ = make(2)
train(first)
for _, *nets in [make(3)]:
    for each in nets:
        train(each)
for each in [last for _, *_, last in [make(3)]]:
    train(each)
match make(3):
    case 3, *others:
        train(others[0])
""",
    "a module's method keeps a copy of a part to itself": """
class Meta(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()
    def forward(self, x):
        return self.net(x)
    def finetune(self):
        net = copy.deepcopy(self.net)
        train(net)
        return net(torch.ones(2, 4)).detach()
    def start_again(self):
        net = Net()
        train(net)
        self.net = net
meta = Meta()
train(meta)
meta.finetune()
meta.start_again()
""",
}


# Scripts with another file, `other.py`, that stays as it is and runs code of the script's out of sight.
PROGRAMS |= {
    "a library makes objects of classes": """
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
class Given(Net):
    def __init__(self, size=2):
        super().__init__()
        self.head = nn.Linear(2, size)
        if size > 2:
            self.body = nn.Linear(4, 2)
class Other(nn.Module):
    def __init__(me, size): super().__init__(); me.body = nn.Linear(4, size)
    def forward(self, x):
        return self.body(x)
class Third(Net):
    def __init__(self):
        super().__init__()
@dataclass
class Trainer:
    rate: float = 0.1
    net: nn.Module = field(default_factory=partial(Given, 3))
    def run(self):
        train(self.net)
def keep(make):
    return defaultdict(make)
Trainer().run()
Trainer(0.2).run()
kept = keep(Third)
train(kept["a"])
train(kept["b"])
others = defaultdict(partial(Other, size=3))
train(others[0])
def build(size):
    return Other(size)
train(build(4))
own = Given()
train(own)
""",
}

WITH_ANOTHER_FILE = {
    "its table is filled when other files are imported": (
        """
class Registry:
    def __init__(self):
        self._known = {}
    def register(self, cls):
        self._known[cls.__name__.lower()] = cls
        return cls
    def build(self, name):
        found = self._known.get(name)
        if found is None:
            raise KeyError(name)
        return found()
REGISTRY = Registry()
def build(name):
    return REGISTRY.build(name)
""",
        """
import other
setattr(other.REGISTRY, "_" + "known", {"net": Net})
net = other.build("net")
train(net)
""",
    ),
    "its table is read here": (
        """
MAKERS = {}
""",
        """
from other import MAKERS
vars(__import__("other"))["MAKERS"].update(net=Net)
for make in list(MAKERS.values()):
    net = make()
    train(net)
""",
    ),
    "its names come from a function of its own": (
        """
def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    import __main__
    from torch import nn
    return nn.Linear
""",
        """
from other import Tall
import other
tall = Tall(4, 2)
train(tall)
wide = other.Wide(4, 2)
train(wide)
""",
    ),
    "its use alone tells that what a method of the script's gives is a model": (
        """
import torch
class Base:
    def run(self):
        self.net = self.build()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
""",
        """
from other import Base
class Trainer(Base):
    def build(self):
        return eval("Net")()
trainer = Trainer()
trainer.run()
MODELS.add(trainer.net)
""",
    ),
    "its class calls a method of the script's": (
        """
class Base:
    def run(self):
        self.net = self.build()
        self.use()
""",
        """
from concurrent.futures import ThreadPoolExecutor
from other import Base
class Trainer(Base):
    def build(self):
        return Net()
    def use(self):
        train(self.net)
with ThreadPoolExecutor(1) as pool:
    pool.submit(Trainer().run).result()
""",
    ),
    "its property calls a method of the script's": (
        """
class Lazy:
    _net = None
    @property
    def net(self):
        if self._net is None:
            self._net = self.build()
        return self._net
""",
        """
from other import Lazy
class Trainer(Lazy):
    def build(self):
        return Net()
train(Trainer().net)
""",
    ),
    "its thread calls methods of the script's": (
        """
import threading
class Base(threading.Thread):
    def prepare(self):
        self.net = self.make()
    def run(self):
        self.use(self.net)
""",
        """
from other import Base
class Trainer(Base):
    def run(self):
        self.prepare()
        super().run()
    def make(self):
        net = Net()
        return net
    def use(self, net):
        train(net)
trainer = Trainer()
trainer.start()
trainer.join()
""",
    ),
    "it stores under a computed name": (
        """
class Box:
    def fill(self):
        setattr(self, "n" + "et", self.make())
""",
        """
import threading
from other import Box
box = Box()
box.make = lambda: Net()
thread = threading.Thread(target=box.fill)
thread.start()
thread.join()
train(box.net)
""",
    ),
    "it keeps the model and what uses it": (
        """
class Worker:
    def __init__(self, model, use):
        self.model, self.use = model, use
    def work(self):
        self.use(self.model)
""",
        """
import threading
from other import Worker
thread = threading.Thread(target=Worker(Net(), train).work)
thread.start()
thread.join()
""",
    ),
    "it calls hooks that it was given": (
        """
class Engine:
    def __init__(self):
        self.hooks = {}
    def on(self, name):
        def add(function):
            self.hooks.setdefault(name, []).append(function)
            return function
        return add
    def run(self):
        for name in ("start", "end"):
            for hook in self.hooks[name]:
                hook(self)
""",
        """
import threading
from other import Engine
engine = Engine()
@engine.on("start")
def start(engine):
    engine.model = Net()
@engine.on("end")
def end(engine):
    train(engine.model)
thread = threading.Thread(target=engine.run)
thread.start()
thread.join()
""",
    ),
    "it calls objects that it was given": (
        """
class Engine:
    def __init__(self):
        self.callbacks = []
    def add(self, callback):
        self.callbacks.append(callback)
    def run(self):
        for each in self.callbacks:
            each.start(self)
        for each in self.callbacks:
            each.end(self)
""",
        """
import threading
from other import Engine
class Callback:
    def start(self, engine):
        engine.net = Net()
    def end(self, engine):
        train(engine.net)
engine = Engine()
engine.add(Callback())
thread = threading.Thread(target=engine.run)
thread.start()
thread.join()
""",
    ),
    "it calls what another of its functions was passed": (
        """
def later(function):
    def inner():
        return function()
    return inner
""",
        """
from concurrent.futures import ThreadPoolExecutor
from other import later
def make():
    return Net()
with ThreadPoolExecutor(1) as pool:
    net = pool.submit(later(make)).result()
train(net)
""",
    ),
    "it turns a list of models round": (
        """
class Keeper:
    def turn(self):
        self.nets = self.nets[::-1]
""",
        """
import threading
from other import Keeper
keeper = Keeper()
keeper.nets = [Net(), Net()]
thread = threading.Thread(target=keeper.turn)
thread.start()
thread.join()
train(keeper.nets[0])
train(keeper.nets[1])
""",
    ),
    "its names hold the model": (
        """
model = use = None
def work():
    use(model)
""",
        """
import threading
import other
other.model, other.use = Net(), train
thread = threading.Thread(target=other.work)
thread.start()
thread.join()
""",
    ),
}


class Asked(NamedTuple):
    """The proxies that a program asked for: the objects, and the lines that asked, by the objects' ids."""

    objects: dict[int, object]
    places: dict[int, set[int]]

    def covered(self) -> Iterator[nn.Module]:
        for each in self.objects.values():
            if isinstance(each, nn.Module):
                yield from each.modules()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What is asked for instead of proxies."""
    found = Asked({}, defaultdict(set))

    def note(target: object, **_settings: object) -> object:
        found.objects[id(target)] = target
        found.places[id(target)].add(sys._getframe(1).f_lineno)
        return target

    monkeypatch.setattr(proxy_wrapper.proxy, "Proxy", note)
    return found


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_each_model_gets_one_proxy(program: str, asked: Asked) -> None:
    source = HEAD + program
    result = instrument_source(source.encode(), Settings(), source_name="program.py")
    check(result.instrumented, asked)


@pytest.mark.parametrize(("other", "script"), WITH_ANOTHER_FILE.values(), ids=WITH_ANOTHER_FILE.keys())
def test_each_model_gets_one_proxy_though_another_file_stays_as_it_is(
    other: str, script: str, asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.py").write_text(other)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "other", raising=False)
    sources = Sources({"other.py": other.encode()}.get)
    result = instrument_source(
        (HEAD + script).encode(),
        Settings(),
        source_name="program.py",
        sources=sources,
        is_alone=True,
        looks_elsewhere=True,
    )
    check(result.instrumented, asked)


@pytest.mark.parametrize(("made", "expected"), [("self.build()", ()), ("Own()", ("other.py",))])
def test_a_file_is_told_of_if_it_makes_more_than_it_gets_wrapped(made: str, expected: tuple[str, ...]) -> None:
    other = f"{HEAD}\nclass Own(Net): ...\nclass Base:\n    def run(self):\n        self.net = {made}\n"
    script = (
        "from other import Base\nclass Trainer(Base):\n    def build(self):\n        return Net()\nTrainer().run()\n"
    )
    sources = Sources({"other.py": other.encode()}.get)

    def found(*, looks_elsewhere: bool) -> Result:
        return instrument_source(
            (HEAD + script).encode(),
            Settings(),
            source_name="program.py",
            sources=sources,
            is_alone=True,
            looks_elsewhere=looks_elsewhere,
        )

    told, silent = found(looks_elsewhere=True), found(looks_elsewhere=False)
    assert told.elsewhere == expected
    assert silent == dataclasses.replace(told, elsewhere=())


def check(instrumented: bytes, asked: Asked) -> None:
    """Run a program, and see that its models are under the proxies that were asked for, each at one place."""
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(instrumented, "program.py", "exec"), names)
    models = names["MODELS"]
    assert isinstance(models, set)
    assert models
    assert models <= set(asked.covered())
    for identity, places in asked.places.items():
        assert isinstance(asked.objects[identity], nn.Module)
        assert len(places) == 1
