"""What is known about libraries: read from sources of the shapes that real ones have."""

from __future__ import annotations

import pytest

from instrumentor.resolve.catalogue import Effect
from instrumentor.resolve.knowledge import Knowledge
from instrumentor.resolve.nature import Nature
from instrumentor.settings import Settings
from tests.instrumentor.resolve.packages import PackagesInMemory

LIBRARY = {
    "lib/__init__.py": """
        from typing import TYPE_CHECKING
        from ._lazy import LazyModule
        from .factory import create
        if TYPE_CHECKING:
            from .auto import *
        try:
            from .fast import Net as Fast
        except ImportError:
            Fast = None
        """,
    "lib/_lazy.py": "class LazyModule: ...",
    "lib/net.py": """
        import torch.nn as nn
        from functools import partial, wraps

        def register(fn):
            TABLE[fn.__name__] = fn
            return fn

        TABLE = {}

        class Base(nn.Module):
            @classmethod
            def from_pretrained(cls, name):
                model = cls(name)
                model.load_state_dict(fetch(name))
                return model.eval()

        class Net(Base):
            def __init__(self, width):
                self.layer = nn.Linear(width, width)
            def forward(self, x):
                return self.layer(x)

        class Penalty(nn.Module):
            def __init__(self, weight):
                super().__init__()
                self.weight = float(weight)
                self.inner = nn.CrossEntropyLoss()
            def forward(self, x, y):
                return self.weight * self.inner(x, y)

        class OutOfTable(nn.Module):
            def __init__(self, depth):
                super().__init__()
                self.inner = {18: make_small, 34: make_large}[depth]()
            def forward(self, x):
                return self.inner.features(x)

        class OfParameter(nn.Module):
            def __init__(self, make):
                super().__init__()
                self.inner = make(3)
            def forward(self, x):
                return self.inner.features(x)

        class OfMethod(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = self._make()
            def _make(self):
                return build()
            def forward(self, x):
                return self.inner.features(x)

        class Kept(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

        class Using(Kept):
            def forward(self, x):
                return self.inner(x)

        class Other(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner
            def forward(self, x, other=None):
                call = other or self.inner
                return call(x)

        class Window(nn.Module):
            def __init__(self, size):
                super().__init__()
                self.window = size.repeat(3)
            def forward(self, x):
                return x * self.window.type_as(x)

        class Holder(nn.Module):
            def __init__(self, model):
                super().__init__()
                self.model = model
            def forward(self, x):
                return self.model(x)

        class Plain:
            pass

        @register
        def small(pretrained=False, **kwargs):
            return _build(Net, 3, **kwargs)

        def _build(cls, width, **kwargs):
            net = cls(width)
            if kwargs:
                net = net.half()
            return net

        def initialised(model, gain):
            for each in model.modules():
                each.gain = gain
            return model.to("cpu")

        def parallel(model):
            return nn.DataParallel(model)

        def with_transform(name):
            return Net(3), Plain()

        def by_name(name):
            return TABLE[name]()

        def promised(name: str) -> nn.Module:
            return TABLE[name]()

        def optimizer(model):
            return Plain()

        def batches(model):
            yield model

        deep = partial(_build, Net)
        """,
    "lib/factory.py": """
        from .net import Net, Plain
        from . import net as nets
        KINDS = (Net, nets.Holder)
        BY_NAME = {kind.__name__.lower(): kind for kind in KINDS}
        def create(kind, **kwargs):
            cls = BY_NAME[kind]
            return cls(**kwargs)
        """,
    "lib/auto.py": """
        from collections import OrderedDict
        from .net import Base
        NAMES = OrderedDict([("small", "Small"), ("large", "Large")])
        class Mapping(OrderedDict):
            def __init__(self, names):
                self._names = names
        MAPPING = Mapping(NAMES)
        class Auto:
            mapping = None
            @classmethod
            def from_pretrained(cls, name):
                model_class = find_class(name, cls.mapping)
                return model_class.from_pretrained(name)
        class AutoNet(Auto):
            mapping = MAPPING
        AutoNet = documented(AutoNet)
        class Small(Base):
            ...
        class Large(Small):
            ...
        def documented(cls):
            return cls
        def find_class(name, mapping):
            return mapping[type(name)][0]
        """,
    "generic/__init__.py": """
        from typing import Callable, Type, TypeVar, Optional, Tuple
        from typing_extensions import Self
        from lib.net import Net
        T = TypeVar("T")
        Specific = TypeVar("Specific", bound="Builder")
        class Builder:
            @classmethod
            def build(cls: Type[T], name) -> T:
                return load(name)
            def same(self) -> Self:
                return load(self)
        class Model(Net, Builder):
            pass
        def made_by(make: Callable[..., T]) -> T:
            return remote(make)
        def maybe(name) -> "Optional[Net]":
            return remote(name)
        def pair(name) -> Tuple[Net, dict]:
            return remote(name)
        """,
    "loop/__init__.py": """
        from .other import thing
        def first(x):
            return second(x)
        def second(x):
            return first(x)
        class Odd(Odd): ...
        """,
    "loop/other.py": "from . import thing",
    "transforms/__init__.py": """
        import logging, torch
        from torch import nn
        from ._counting import count
        from absent import hooks
        class Crop(nn.Module):
            def __init__(self, size):
                super().__init__()
                count(self)
                logging.debug("%s", self)
                self.size = size
            def forward(self, image): return image[: self.size]
        class Filled(Crop):
            def __init__(self):
                super().__init__(1)
                fill(self)
        class Handed(Crop):
            def __init__(self):
                super().__init__(1)
                hand_on(self)
        class Hooked(Crop):
            def __init__(self):
                super().__init__(1)
                hooks.install(self)
        def fill(module): module.head = nn.Linear(1, 1)
        def hand_on(module): fill(module)
        """,
    "transforms/_counting.py": """
        counts = {}
        def count(obj):
            name = type(obj).__name__
            counts[name] = counts.get(name, 0) + 1
        """,
    "registry/__init__.py": "from .models import *",
    "registry/models.py": """
        from lib.net import Net, register
        __all__ = ["Net"]
        @register
        def tiny(): return Net(1)
        """,
    "reexport/__init__.py": "from torch import nn\nfrom torch.nn import *\nimport torch",
}


@pytest.fixture(scope="module")
def knowledge() -> Knowledge:
    return Knowledge(Settings(), PackagesInMemory(LIBRARY))


@pytest.mark.parametrize(
    ("name", "nature"),
    [
        pytest.param("lib.net.Net", Nature.MODULE, id="a class with layers, its base in the same file"),
        pytest.param("lib.net.Penalty", Nature.NO_PARAMS, id="a loss made of losses"),
        pytest.param("lib.net.OutOfTable", Nature.MODULE, id="a module with a part out of a table"),
        pytest.param("lib.net.OfParameter", Nature.MODULE, id="a module with a part that a parameter makes"),
        pytest.param("lib.net.OfMethod", Nature.MODULE, id="a module with a part that a method makes"),
        pytest.param("lib.net.Using", Nature.MODULE, id="a module that calls what a class above it keeps"),
        pytest.param("lib.net.Other", Nature.MODULE, id="a module that calls what it keeps by another name"),
        pytest.param("lib.net.Window", Nature.NO_PARAMS, id="a module that asks a tensor for another"),
        pytest.param("lib.net.Holder", Nature.MODULE, id="a module that calls the module it is given"),
        pytest.param("lib.net.Plain", Nature.NOT_MODULE, id="a plain class"),
        pytest.param("lib.net.small", Nature.MODULE, id="a registered function that passes a class on"),
        pytest.param("lib.net.deep", Nature.MODULE, id="a partial application"),
        pytest.param("lib.net.Net.from_pretrained", Nature.MODULE, id="a class method of a base"),
        pytest.param("lib.create", Nature.MODULE, id="a table of classes made by a comprehension"),
        pytest.param("lib.AutoNet.from_pretrained", Nature.MODULE, id="a table of the names of classes"),
        pytest.param("lib.net.by_name", Nature.UNKNOWN, id="a table that is filled at run time"),
        pytest.param("lib.net.promised", Nature.MODULE, id="an annotation where the source tells nothing"),
        pytest.param("lib.net.optimizer", Nature.NOT_MODULE, id="a function that makes something else"),
        pytest.param("lib.net.batches", Nature.NOT_MODULE, id="a generator"),
        pytest.param("lib.Fast", Nature.UNKNOWN, id="neither the import nor what stands in for it is there"),
        pytest.param("lib.net.missing", Nature.UNKNOWN, id="a name that the module does not have"),
        pytest.param("absent.Net", Nature.UNKNOWN, id="a package that is not installed"),
        pytest.param("generic.Model.build", Nature.MODULE, id="a type variable bound by `cls: Type[T]`"),
        pytest.param("generic.maybe", Nature.MODULE, id="an optional class, annotated as a string"),
        pytest.param("transforms.Crop", Nature.NO_PARAMS, id="a transform that a function counts"),
        pytest.param("transforms.Filled", Nature.MODULE, id="a module that a function puts a layer into"),
        pytest.param("transforms.Handed", Nature.MODULE, id="a module that a function hands on"),
        pytest.param("transforms.Hooked", Nature.MODULE, id="a module that unseen code is passed"),
        pytest.param("registry.tiny", Nature.MODULE, id="a function that a decorator adds to __all__"),
        pytest.param("loop.first", Nature.NOT_MODULE, id="functions that only call each other"),
        pytest.param("loop.thing", Nature.UNKNOWN, id="imports that lead to each other"),
        pytest.param("reexport.Linear", Nature.MODULE, id="a layer by a star import"),
        pytest.param("reexport.nn.ReLU", Nature.NO_PARAMS, id="torch.nn under another package's name"),
    ],
)
def test_what_a_call_gives(knowledge: Knowledge, name: str, nature: Nature) -> None:
    assert knowledge.nature_of_call(name) is nature


def test_a_function_that_gives_its_argument_back(knowledge: Knowledge) -> None:
    passed = knowledge.passes_on("lib.net.initialised")
    assert passed is not None
    assert (passed.position, passed.name) == (0, "model")
    assert knowledge.passes_on("lib.net.small") is None


def test_the_class_and_the_line_where_it_was_read(knowledge: Knowledge) -> None:
    small = knowledge.origin("lib.net.small")
    assert small is not None
    assert (small.class_names, small.place, small.source) == (("lib.net.Net",), "lib/net.py:18", "source")
    promised = knowledge.origin("lib.net.promised")
    assert promised is not None
    assert (promised.class_names, promised.source) == (("torch.nn.Module",), "annotation")
    linear = knowledge.origin("torch.nn.Linear")
    assert linear is not None
    assert (linear.class_names, linear.place, linear.source) == (("torch.nn.Linear",), "", "catalogue")
    assert knowledge.origin("lib.net.Plain") is None


def test_a_table_of_names_gives_the_classes_named(knowledge: Knowledge) -> None:
    origin = knowledge.origin("lib.AutoNet.from_pretrained")
    assert origin is not None
    assert origin.class_names == ("lib.auto.Large", "lib.auto.Small")


def test_only_the_files_that_names_lead_to_are_parsed() -> None:
    finder = PackagesInMemory(LIBRARY)
    assert Knowledge(Settings(), finder).nature_of_call("lib.net.Net") is Nature.MODULE
    assert finder.parsed == ["lib/net.py"]


def test_a_package_with_hundreds_of_stars_is_asked_for_the_likely_ones() -> None:
    names = [f"family{number}" for number in range(500)]
    files = {
        "zoo/__init__.py": "\n".join(f"from .{name} import *" for name in [*names, "bert"]),
        "zoo/bert.py": "import torch.nn as nn\nclass BertModel(nn.Module):\n    layer = 1\n",
        **{f"zoo/{name}.py": f"class {name.title()}Config: ..." for name in names},
    }
    finder = PackagesInMemory(files)
    assert Knowledge(Settings(), finder).nature_of_base("zoo.BertModel") in (Nature.MODULE, Nature.NO_PARAMS)
    assert finder.parsed == ["zoo/__init__.py", "zoo/bert.py"]


def test_the_user_comes_before_the_source() -> None:
    settings = Settings(
        factories=("lib.net.optimizer",),
        wrappers=("shard.*",),
        identity_methods=("to_fast", "shard_tools.fix"),
        module_classes=("lib.net.Plain",),
    )
    knowledge = Knowledge(settings, PackagesInMemory(LIBRARY))
    assert knowledge.nature_of_call("lib.net.optimizer") is Nature.MODULE
    assert knowledge.nature_of_call("lib.net.Plain") is Nature.MODULE
    assert knowledge.nature_of_base("lib.net.Plain") is Nature.MODULE
    assert knowledge.effect_of("shard.split") is Effect.WRAPS
    assert knowledge.effect_of("shard_tools.fix") is Effect.IDENTITY
    assert {"to_fast", "cuda"} <= knowledge.identity_methods
    origin = knowledge.origin("lib.net.optimizer")
    assert origin is not None
    assert origin.source == "configuration"


def test_without_sources_the_catalogue_speaks() -> None:
    knowledge = Knowledge(Settings())
    assert knowledge.nature_of_call("torchvision.models.resnet18") is Nature.MODULE
    assert knowledge.nature_of_call("lib.net.Net") is Nature.UNKNOWN
    assert knowledge.passes_on("lib.net.initialised") is None
