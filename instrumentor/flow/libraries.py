"""What calls of libraries' functions and classes do with what they are passed, and what they give."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from instrumentor.resolve import catalogue
from instrumentor.resolve.catalogue import Effect
from instrumentor.resolve.nature import Nature

if TYPE_CHECKING:
    from instrumentor.resolve.knowledge import Knowledge


class Gives(Enum):
    """What a call gives besides what it is passed."""

    NOTHING = "no module"
    UNKNOWN = "what its use would have to explain"
    MODULE = "perhaps a module"


class Behaviour(NamedTuple):
    """What a call does.

    Attributes:
        gives: what it gives.
        hands_back: whether that may be what it is passed, or hold it.
        calls: whether it may call what it is passed.
        uses: whether what it is passed is used as modules are.
        makes_objects: whether it makes objects of the classes that it is passed.
        is_instance: whether what it gives has methods of which the catalogue may know something.
        builds: whether only its first argument is what is called later.
    """

    gives: Gives
    hands_back: bool = False
    calls: bool = False
    uses: bool = False
    makes_objects: bool = False
    is_instance: bool = False
    builds: bool = False


# The packages of the standard library in which functions give back what they are passed, or call it.
_HANDING_ON = frozenset(
    {"asyncio", "collections", "concurrent", "contextlib", "contextvars", "functools", "heapq", "itertools",
     "multiprocessing", "operator", "queue", "random", "threading", "types", "weakref"}
)  # fmt: skip
_WITH_METHODS = frozenset({"accelerate", "lightning", "lightning_fabric", "pytorch_lightning"})
_READING_BUILTINS = frozenset({"builtins.getattr", "builtins.next"})
_BY_EFFECT = {
    Effect.IDENTITY: Behaviour(Gives.NOTHING, hands_back=True),
    Effect.IDENTITY_TUPLE: Behaviour(Gives.NOTHING, hands_back=True),
    Effect.UNWRAPS: Behaviour(Gives.UNKNOWN, hands_back=True),
    Effect.PROXIES: Behaviour(Gives.NOTHING, hands_back=True),
    Effect.REPLACES: Behaviour(Gives.MODULE, hands_back=True, uses=True),
    Effect.WRAPS: Behaviour(Gives.NOTHING, hands_back=True, uses=True),
    Effect.WRAPS_EACH: Behaviour(Gives.NOTHING, hands_back=True, uses=True),
    Effect.WRAPS_FIRST: Behaviour(Gives.NOTHING, hands_back=True, uses=True),
    Effect.WRAPS_REPLACING: Behaviour(Gives.MODULE, uses=True),
    Effect.COPIES: Behaviour(Gives.MODULE),
    Effect.DERIVES: Behaviour(Gives.UNKNOWN, hands_back=True),
    Effect.COLLECTS: Behaviour(Gives.NOTHING, hands_back=True),
    Effect.READS: Behaviour(Gives.NOTHING),
    Effect.BUILDS: Behaviour(Gives.NOTHING, hands_back=True, builds=True),
}


class Libraries:
    """Answers about libraries' names, each looked up once."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self._known: dict[str, Behaviour] = {}

    def behaviour(self, name: str) -> Behaviour:
        """What calling a name does."""
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._find(name)
        return found

    def has_known_methods(self, name: str) -> bool:
        """Whether it is known of methods of a class's objects what they do with modules."""
        return self.behaviour(f"{name}.fit").uses or name.partition(".")[0] in _WITH_METHODS

    def makes_objects(self, name: str) -> bool:
        """Whether a class makes objects of the classes that it is passed."""
        return self._knowledge.makes_objects(name)

    def _find(self, name: str) -> Behaviour:
        knowledge = self._knowledge
        package = name.partition(".")[0]
        if name in ("copy.copy", "copy.deepcopy"):
            return Behaviour(Gives.UNKNOWN, hands_back=True)
        if name in _READING_BUILTINS:
            return Behaviour(Gives.UNKNOWN, hands_back=True)
        is_instance = name.rpartition(".")[2][:1].isupper() and catalogue.is_of_modules(name)
        makes_objects = knowledge.makes_objects(name)
        effect = knowledge.effect_of(name)
        if effect is not None:
            return _BY_EFFECT[effect]._replace(is_instance=is_instance, makes_objects=makes_objects)
        uses = knowledge.takes_module(name)
        if knowledge.holding(name) is not None or catalogue.is_container(name):
            return Behaviour(Gives.MODULE, uses=uses, makes_objects=makes_objects, is_instance=True)
        if name in catalogue.MAPPING:
            return Behaviour(Gives.NOTHING, hands_back=True, calls=True)
        if package == "builtins":
            return Behaviour(Gives.UNKNOWN if name == "builtins.eval" else Gives.NOTHING, makes_objects=makes_objects)
        nature = knowledge.nature_of_call(name)
        gives = {Nature.MODULE: Gives.MODULE, Nature.UNKNOWN: Gives.UNKNOWN}.get(nature, Gives.NOTHING)
        is_handing = package in _HANDING_ON and not name.startswith("random.rand")
        hands_back = is_handing or knowledge.passes_on(name) is not None
        return Behaviour(gives, hands_back, is_handing, uses, makes_objects, is_instance)
