"""What is not analysed since it shows that nothing in it is to be wrapped: never a script in which something is."""

from __future__ import annotations

import textwrap
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
import torch

from instrumentor.analysis.fixpoint import analyse
from instrumentor.instrument import Result, instrument_source
from instrumentor.resolve.outline_cache import OutlineCache
from instrumentor.resolve.project import Project, Sources
from instrumentor.resolve.unit_cache import UnitCache
from instrumentor.settings import Settings

if TYPE_CHECKING:
    from instrumentor.analysis.facts import Facts
    from instrumentor.resolve.classes import Hierarchy

ROOT = Path(__file__).parents[3]
TORCH = Path(torch.__file__).parent
NEIGHBOURS = {
    "net.py": """
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Linear(1, 1)
        """,
    "base.py": """
        from torch import nn
        class Base(nn.Module):
            def build(self):
                return nn.Linear(1, 1)
        """,
    "makers.py": """
        from net import Net
        def make():
            return Net()
        """,
    "words.py": """
        import json
        class Word:
            def __init__(self, text):
                self.text = text
        def plural(word):
            return Word(json.loads(word) + "s")
        """,
    "inspecting.py": """
        def inspect(holder):
            holder.model.eval()
        """,
    "training.py": """
        def train(model):
            model.train()
            for each in model.parameters():
                each.grad = None
        """,
    "deeper.py": """
        from training import train
        def run(model):
            helper(model)
        def helper(model):
            train(model)
        """,
    "keeping.py": """
        class Keeper:
            def __init__(self, model):
                self.model = model
                self.model.eval()
        """,
    "factory.py": """
        from net import Net
        class Factory:
            maker = Net
            def produce(self):
                return Net()
        factory = Factory()
        """,
    "tables.py": """
        from functools import partial
        from net import Net
        def convert(kind, x):
            table = {"list": lambda value: value.tolist(), "text": str}
            return [table[kind](each) for each in x]
        def lower(words):
            change = partial(convert, "text")
            return change(words)
        def make(kind):
            table = {"net": Net}
            return table[kind]()
        def make_later(kind):
            table = {"text": str}
            table["net"] = Net
            return table[kind]()
        def make_partly():
            maker = partial(Net)
            return maker()
        def register(function):
            return function
        """,
    "signatures.py": """
        import inspect
        class Described:
            def names(self):
                return list(inspect.signature(self.__init__).parameters)
            def checked(self, function, given):
                signature = inspect.signature(function)
                def check():
                    return dict(zip(signature.parameters, given))
                return check
        """,
    "mappings.py": """
        class Mapping(dict):
            def __getitem__(self, kind):
                return load(kind)
        MAPPING = Mapping()
        def make_settings(kind):
            return MAPPING[kind]()
        """,
    "zoo.py": """
        from net import Net
        TABLE = {"net": Net}
        def build(kind):
            return TABLE[kind]()
        def class_of(kind):
            return TABLE[kind]
        """,
    "registry.py": """
        FUNCTIONS = {}
        def register(function):
            FUNCTIONS[function.__name__] = function
            return function
        def create(name):
            return FUNCTIONS[name]()
        """,
    "callbacks.py": """
        import functools
        def call(function, *given):
            return function(*given)
        def counted(function):
            @functools.wraps(function)
            def wrapper(*given):
                wrapper.calls += 1
                return function(*given)
            return wrapper
        """,
    "template.py": """
        from torch import nn
        class Template(nn.Module):
            def __init__(self):
                super().__init__()
                self.build(nn.Linear)
        """,
    "config.py": """
        class Config:
            def __init__(self, **kwargs):
                self.kept = kwargs
            def to_dict(self):
                return dict(self.kept)
        """,
}


def look(source: str, *, is_brief: bool, settings: Settings | None = None) -> Result:
    def read(path: str) -> bytes | None:
        return dedent(NEIGHBOURS[path]).encode() if path in NEIGHBOURS else None

    outlines = OutlineCache(UnitCache(), None) if is_brief else None
    return instrument_source(
        dedent(source).encode(), settings or Settings(), source_name="a.py", sources=Sources(read), outlines=outlines
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            """
            import torch
            from torch import nn
            def rotate(x):
                half = x.shape[-1] // 2
                return torch.cat((-x[..., half:], x[..., :half]), dim=-1)
            class Attention(nn.Module):
                def __init__(self, config):
                    super().__init__()
                    self.layers = nn.ModuleList([nn.Linear(config.size, 1) for _ in range(config.depth)])
                    blocks = []
                    for _ in range(3):
                        blocks.append(nn.Linear(1, 1))
                    self.body = nn.Sequential(*blocks)
                def forward(self, x):
                    seen = ()
                    for layer in self.layers:
                        x = layer(rotate(x))
                        seen = seen + (x,)
                    return self.body(x), seen
            """,
            id="classes of modules and functions of tensors",
        ),
        pytest.param(
            """
            from config import Config
            class Larger(Config):
                def __init__(self, size=3, names=None, **kwargs):
                    self.size = size
                    self.names = {} if names is None else names
                    super().__init__(**kwargs)
                def to_dict(self):
                    return {**super().to_dict(), "size": self.size}
            """,
            id="a class of settings whose base is in another file",
        ),
        pytest.param(
            """
            from base import Base
            class Derived(Base):
                def __init__(self):
                    super().__init__()
                    self.head = self.build()
            """,
            id="a module class whose base is in another file",
        ),
        pytest.param(
            """
            import logging
            import net
            logger = logging.getLogger(__name__)
            def count(words):
                found = {}
                for word in words:
                    found[word] = found.get(word, 0) + 1
                logger.info("counted")
                return sorted(found.items())
            """,
            id="a function of words",
        ),
        pytest.param(
            """
            from tables import convert, lower
            def shape(x):
                return convert("list", x), lower(["A"])
            """,
            id="functions that a table of functions, or a partial function, is called in",
        ),
        pytest.param(
            """
            import torch
            class Twice(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return 2 * x
            def twice(x):
                return Twice.apply(torch.zeros_like(x).requires_grad_())
            """,
            id="methods of modules that tensors and functions have, too",
        ),
        pytest.param(
            """
            from config import Config
            from tables import register
            @register
            class Mine(Config):
                @classmethod
                def read(cls, path, **kwargs):
                    found = cls(**kwargs)
                    found.path = path
                    return found
            """,
            id="an instance of the class at hand",
        ),
        pytest.param(
            """
            import copy
            from signatures import Described
            class Mine(Described):
                def __init__(self, tokenizer, depths=()):
                    self.ids = tokenizer.convert(["a", "b"])
                    self.stages = ["stem"] + [f"stage{each}" for each in range(len(depths))]
                    self.given = copy.deepcopy(depths)
                    super().__init__(tokenizer)
            """,
            id="a class whose base only looks at parameters of functions",
        ),
        pytest.param(
            """
            from signatures import Described
            class Mine(Described):
                def __init__(self, given, tokenizer):
                    super().__init__()
                    self.tokenizer = tokenizer.train_from(given)
                    self.check = self.checked(print, given)
            """,
            id="the parameters of a signature by a name of its own",
        ),
        pytest.param(
            """
            from torch import nn
            from mappings import MAPPING
            def attend(query, key):
                return query @ key
            def spans(lengths):
                def span(length):
                    return max(length, 1)
                found = []
                for length in lengths:
                    found.append(span(length))
                return found
            class Attention(nn.Module):
                kinds = {"inner": nn.Linear}
                def __init__(self, size):
                    super().__init__()
                    self.size = (size,)
                    self.query = nn.Linear(size, size)
                    self.act = MAPPING["gelu"]
                def split(self, both):
                    return both.chunk(2)
                def forward(self, x, attention=attend):
                    states = []
                    for part in self.split(self.act(self.query(x))):
                        states.append(attention(part, part))
                    self.seen = [spans(states), x]
                    return self.finish(states)
                def finish(self, states):
                    return sum(states)
            """,
            id="what layers compute, in plain lists",
        ),
        pytest.param(
            """
            import dataclasses
            from torch import nn
            @dataclasses.dataclass
            class Settings:
                names: list = dataclasses.field(default_factory=list)
                rate: float = dataclasses.field(default=0.1, metadata={"help": "how fast"})
            class Layer(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(1, 1)
            """,
            id="fields of plain values",
        ),
        pytest.param(
            """
            from torch import nn
            class Stack(nn.Module):
                kind = nn.Linear
                def __init__(self):
                    super().__init__()
                    self.layers = [self.kind(1, 1)]
            """,
            id="layers in a plain list by an attribute of the class, which the analysis does not follow",
        ),
    ],
)
def test_is_not_analysed(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not look(source, is_brief=False).changed
    monkeypatch.setattr("instrumentor.instrument.analyse", lambda _: pytest.fail("was analysed"))
    assert not look(source, is_brief=True).changed


def assert_is_analysed(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    analysed = []

    def watched(project: Project) -> tuple[Facts, Hierarchy]:
        analysed.append(project)
        return analyse(project)

    monkeypatch.setattr("instrumentor.instrument.analyse", watched)
    result = look(source, is_brief=True)
    assert analysed
    assert result == look(source, is_brief=False)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(
            "from net import Net\nmade = object.__new__(Net)\nmade.__init__()\n", id="made without initialiser"
        ),
        pytest.param("from net import Net\nmade = Net.__new__(Net)\nmade.__init__()\n", id="made by its own __new__"),
        pytest.param("from net import Net\nmodel = Net()\n", id="made at the top"),
        pytest.param(
            "import itertools\nfrom net import Net\nmodels = itertools.starmap(Net, [()])\n", id="made of tuples"
        ),
        pytest.param(
            "import asyncio\nfrom net import Net\nasync def f():\n    return Net()\nasyncio.gather(f())\n",
            id="made by a coroutine",
        ),
        pytest.param(
            "from net import Net\nclass Sweep:\n    def __next__(self):\n        return Net()\n",
            id="made by an iterator",
        ),
        pytest.param(
            """
            import elsewhere
            from net import Net
            class Kept(Net):
                def __init__(self):
                    super().__init__()
                    elsewhere.note(self.body)
            def make_sometimes(size):
                model = Kept()
                if size > 1:
                    return model
                return None
            """,
            id="a model that is not always returned",
        ),
        pytest.param("import net\nmodel = net.Net()\n", id="made by a dotted name"),
        pytest.param("from net import *\nmodel = Net()\n", id="by a star import"),
        pytest.param(
            "from torch import nn\ndef f(x):\n    layer = nn.Linear(1, 1)\n    return layer(x)\n", id="a layer"
        ),
        pytest.param("from net import Net\nMakers = [Net]\nmodel = Makers[0]()\n", id="by an element"),
        pytest.param(
            "from net import Net\ndef f(make):\n    model = make()\n    print(model)\nf(Net)\n", id="by a parameter"
        ),
        pytest.param("from makers import make\nmodel = make()\n", id="made in another file"),
        pytest.param("from makers import *\nmodel = make()\n", id="made in another file, by a star import"),
        pytest.param("import makers\nmodel = makers.make()\n", id="made in another file, by a dotted name"),
        pytest.param("from net import Net\nmake = Net\nmodel = make()\n", id="by another name"),
        pytest.param("from factory import factory\nmodel = factory.produce()\n", id="by another file's method"),
        pytest.param(
            "from factory import Factory\ndef f(x):\n    model = x.produce()\n    print(model)\nf(Factory())\n",
            id="by a method of what is passed",
        ),
        pytest.param("from factory import factory\nmodel = factory.maker()\n", id="by a class that an object keeps"),
        pytest.param("import elsewhere\nmodel = elsewhere.make()\nmodel.eval()\n", id="by its use"),
        pytest.param(
            "import elsewhere\nfrom training import train\nmodel = elsewhere.make()\ntrain(model)\n",
            id="by its use in another file",
        ),
        pytest.param(
            "import elsewhere\nfrom deeper import run\ndef f(x):\n    run(x)\nf(elsewhere.make())\n",
            id="by its use further on",
        ),
        pytest.param(
            """
            import elsewhere
            from training import train
            models = [elsewhere.make()]
            for each in models:
                train(each)
            """,
            id="by its use in a loop",
        ),
        pytest.param(
            "import elsewhere\nfrom keeping import Keeper\nKeeper(elsewhere.make())\n", id="by its use in another class"
        ),
        pytest.param(
            """
            import elsewhere
            from keeping import Keeper
            class Mine(Keeper):
                def __init__(self):
                    super().__init__(elsewhere.make())
            Mine()
            """,
            id="by its use in a class above",
        ),
        pytest.param(
            """
            import elsewhere
            from inspecting import inspect
            class Mine:
                def __init__(self):
                    self.model = elsewhere.make()
                    inspect(self)
            Mine()
            """,
            id="by the use of an object that keeps it",
        ),
        pytest.param(
            """
            import elsewhere
            from torch import nn
            teacher = elsewhere.make()
            class Student(nn.Module):
                def forward(self, x):
                    teacher.eval()
                    return teacher(x)
            """,
            id="by its use in a class of modules",
        ),
        pytest.param(
            "import torch, elsewhere\nmodel = torch.compile(elsewhere.make())\nprint(model)\n", id="by a wrapper"
        ),
        pytest.param(
            "from net import Net\ndef make():\n    net = Net()\n    def get():\n        return net\n    return get\n",
            id="by a function that keeps hold of it",
        ),
        pytest.param(
            """
            import elsewhere
            from torch import nn
            class Probe(nn.Module):
                def __init__(self, model):
                    super().__init__()
                    self.size = sum(each.numel() for each in model.parameters())
            def make():
                model = elsewhere.make()
                probe = Probe(model=model)
                return probe
            """,
            id="by its use in a class of modules that a function makes for another file",
        ),
        pytest.param(
            """
            from torch import nn
            class Stack(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = [nn.Linear(1, 1), nn.Linear(1, 1)]
            """,
            id="in a plain list",
        ),
        pytest.param(
            """
            from torch import nn
            class Stack(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = []
                    for _ in range(2):
                        self.layers.append(nn.Linear(1, 1))
            """,
            id="put into a plain list",
        ),
        pytest.param(
            """
            from torch import nn
            class Stack(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = self.make()
                def make(self):
                    first = nn.Linear(1, 1)
                    return [first]
            """,
            id="in a plain list that a method gives",
        ),
        pytest.param(
            """
            from torch import nn
            class Stack(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layers = {}
                    self.layers["first"] = nn.Linear(1, 1)
            """,
            id="in a plain dict",
        ),
        pytest.param("from net import Net\nother = Net().__class__()\n", id="by an object's class"),
        pytest.param("from tables import make\nmodel = make('net')\n", id="from a table of classes"),
        pytest.param("from tables import make_later\nmodel = make_later('net')\n", id="put into a table of functions"),
        pytest.param(
            "from functools import partial\nfrom net import Net\nmake = partial(Net)\nmodel = make()\n",
            id="by a partial function of its own",
        ),
        pytest.param("from tables import make_partly\nmodel = make_partly()\n", id="by a partial function"),
        pytest.param(
            "from net import Net\ndef f():\n    make = Net\n    model = make()\n    print(model)\nf()\n",
            id="by a function's own name for it",
        ),
        pytest.param("from zoo import TABLE\nmodel = TABLE['net']()\n", id="from another file's table"),
        pytest.param(
            "import zoo\ndef f(name):\n    model = getattr(zoo, name)()\n    print(model)\nf('build')\n",
            id="by a computed name",
        ),
        pytest.param(
            "from mappings import MAPPING\nfrom net import Net\nMAPPING['net'] = Net\nmodel = MAPPING['net']()\n",
            id="put into another file's object",
        ),
        pytest.param(
            "from callbacks import call\nfrom net import Net\nmodel = call(Net)\n", id="by a function that is passed it"
        ),
        pytest.param(
            "from net import Net\ntable = {'net': lambda: Net()}\nmodel = table['net']()\n", id="by a lambda in a table"
        ),
        pytest.param(
            """
            from net import Net
            class Maker:
                def make(self):
                    return Net()
                def run(self):
                    make = self.make
                    model = make()
                    print(model)
            Maker().run()
            """,
            id="by a method's other name",
        ),
        pytest.param(
            "from net import Net\ndef make():\n    return Net()\nmodel = make()\n", id="by a function of its own"
        ),
        pytest.param(
            """
            from net import Net
            def make():
                return Net()
            def make_twice():
                return make(), make()
            first, second = make_twice()
            """,
            id="by a function of a function of its own",
        ),
        pytest.param(
            "from net import Net\ndef make():\n    net = Net()\n    print(net)\n    return net\nmake()\n",
            id="by a function whose result nobody takes",
        ),
        pytest.param(
            """
            from stable_baselines3 import PPO
            agent = PPO("MlpPolicy", "CartPole-v1")
            agent.learn(100)
            """,
            id="by a library that has a model of its own",
        ),
        pytest.param(
            """
            from fastai.vision.all import *
            learn = vision_learner(load(), resnet34)
            """,
            id="by a library that has a model of its own, all of which is imported",
        ),
        pytest.param(
            """
            import stable_baselines3 as sb
            kinds = {"a2c": sb.A2C, "ppo": sb.PPO}
            agent = kinds["ppo"]("MlpPolicy", "CartPole-v1")
            """,
            id="by a library's class out of a table",
        ),
        pytest.param(
            """
            import trl
            class Trainer(trl.SFTTrainer):
                pass
            trainer = Trainer("Qwen/Qwen3-0.6B")
            """,
            id="by a class below one that has a model of its own",
        ),
        pytest.param(
            """
            from torch import nn
            from skorch import NeuralNet
            class Own(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(1, 1)
            kinds = {"module": Own}
            trainer = NeuralNet(**kinds)
            """,
            id="by a library that gets its class",
        ),
        pytest.param(
            """
            import dataclasses
            from torch import nn
            class Own(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(1, 1)
            @dataclasses.dataclass
            class Parts:
                own: nn.Module = dataclasses.field(default_factory=Own)
            """,
            id="by a field that gets its class",
        ),
        pytest.param(
            """
            from lightning.pytorch.cli import LightningCLI
            from torch import nn
            class Own(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(1, 1)
            class CLI(LightningCLI):
                pass
            CLI(Own)
            """,
            id="by an own class of a library's that gets its class",
        ),
        pytest.param(
            """
            from collections import defaultdict
            from torch import nn
            class Own(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(1, 1)
            KINDS = {"own": Own}
            nets = defaultdict(KINDS["own"])
            """,
            id="by a table that gets its class out of another",
        ),
        pytest.param(
            """
            import collections
            from torch import nn
            class Own(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(1, 1)
            table = collections.defaultdict
            nets = table(Own)
            """,
            id="by a table under another name",
        ),
        pytest.param(
            "import elsewhere\nfrom trl import SFTTrainer\nmodel = elsewhere.make()\nSFTTrainer(model=model)\n",
            id="by what is not known, for a trainer",
        ),
        pytest.param(
            """
            import elsewhere
            import pytorch_lightning as pl
            def main():
                model = elsewhere.make()
                trainer = pl.Trainer(max_epochs=1)
                trainer.fit(model)
            main()
            """,
            id="by what is not known, for a trainer's method",
        ),
    ],
)
def test_is_analysed_and_changed(source: str) -> None:
    result = look(source, is_brief=True)
    assert result.changed
    assert result == look(source, is_brief=False)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            """
                def __init__(self, kind=nn.Linear):
                    super().__init__()
                    self.layers = [kind(1, 1)]
            """,
            id="by a default",
        ),
        pytest.param(
            """
                def __init__(self):
                    super().__init__()
                    self.add(nn.Linear)
                def add(self, kind):
                    self.layers = [kind(1, 1)]
            """,
            id="by an argument of a method",
        ),
        pytest.param(
            """
                def __init__(self):
                    super().__init__()
                    self.layers = [TABLE["net"]()]
            """,
            id="by another file's table",
        ),
        pytest.param(
            """
                def __init__(self):
                    super().__init__()
                    self.layers = [build("net")]
            """,
            id="by another file's function",
        ),
        pytest.param(
            """
                def __init__(self):
                    super().__init__()
                    kind = class_of("net")
                    self.layers = [kind()]
            """,
            id="by a class that another file hands out",
        ),
        pytest.param(
            """
                def __init__(self, name):
                    super().__init__()
                    table = {"linear": nn.Linear}
                    self.layers = [table[name](1, 1)]
            """,
            id="by a table of its own",
        ),
        pytest.param(
            """
                def __init__(self):
                    super().__init__()
                    def make():
                        return nn.Linear(1, 1)
                    first = make()
                    self.layers = (first, None)
            """,
            id="by what another function gives",
        ),
    ],
)
def test_modules_in_plain_lists_are_found_however_they_are_made(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    head = "from torch import nn\nfrom zoo import TABLE, build, class_of\nclass Stack(nn.Module):\n"
    source = head + textwrap.indent(dedent(body), "    ")
    assert_is_analysed(source, monkeypatch)


def test_a_base_in_another_file_may_pass_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
        from template import Template
        class Stack(Template):
            def build(self, kind):
                self.layers = [kind(1, 1)]
        """
    assert look(source, is_brief=True) == look(source, is_brief=False)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("from zoo import build\nmodel = build('net')\n", id="by a function, from another file's table"),
        pytest.param(
            "import net\ndef make(name):\n    return getattr(net or 0, name)()\n", id="from a file that is handed about"
        ),
        pytest.param(
            "from zoo import class_of\nkind = class_of('net')\nmodel = kind()\n", id="by a class that is handed out"
        ),
        pytest.param(
            """
            from net import Net
            from registry import create, register
            @register
            def small():
                return Net()
            model = create("small")
            """,
            id="from a registry that a decorator fills",
        ),
    ],
)
def test_what_may_hand_out_a_model_is_analysed(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_is_analysed(source, monkeypatch)


def test_users_own_factories_may_make_anything() -> None:
    source = "import numpy as np\nx = np.zeros(3)\nprint(x)\n"
    settings = Settings(factories=("numpy.zeros",))
    assert look(source, is_brief=True, settings=settings).changed


@pytest.mark.parametrize(
    "path",
    [
        *sorted(ROOT.glob("fixtures/*/before.py")),
        *sorted(ROOT.glob("examples/*.py")),
        *(TORCH / "nn" / "modules" / f"{name}.py" for name in ("activation", "container", "conv", "loss", "utils")),
        TORCH / "nn" / "utils" / "parametrizations.py",
        TORCH / "optim" / "swa_utils.py",
        TORCH / "utils" / "checkpoint.py",
    ],
    ids=lambda path: "/".join(path.parts[-2:]),
)
def test_the_same_is_written(path: Path) -> None:
    content = path.read_bytes()
    full = instrument_source(content, Settings(), source_name="a.py")
    brief = instrument_source(content, Settings(), source_name="a.py", outlines=OutlineCache(UnitCache(), None))
    assert brief.instrumented == full.instrumented
