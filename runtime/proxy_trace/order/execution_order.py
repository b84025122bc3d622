"""The order in which one call of a model runs its modules and first uses its parameters, from the events alone.

Equals the result of FSDP's symbolic tracer (`torch.distributed.fsdp._trace_utils`), with the same names and meaning: it
decides which parameters are gathered together, and when. Here it comes from an actual call. So it also exists for
models that refuse symbolic tracing, and includes parameters passed by keyword or in a list.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Optional, TypeAlias

import msgspec

from proxy_trace.errors import NoCallError, OrderTooLongError, UnknownClassesError
from proxy_trace.tensors.questions import asks_only
from proxy_wrapper import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from proxy_trace.reading.names import Names
    from proxy_wrapper.events import AnyEvent, CallModule, Event, Module, StateTensor

LeafRule: TypeAlias = Optional[Literal["fsdp"]]  # noqa: UP045  A bar needs no more than a type checker.
"""Which modules are leaves: those of torch.nn, as in FSDP, or none."""

MOST_EVENTS: Final = 1 << 20
"""The most module calls and parameter uses in one call of a model."""

_MOST_CHARACTERS: Final = 1 << 26
"""The maximum total length of names in a result: a trace may put any number of names into each call."""

_MOST_NAMES: Final = 1 << 22
"""The most parameter names kept for all modules together; each module has those of all below it."""

_OF_TORCH: Final = ("torch.nn", "torch.ao.nn")
_SEQUENTIAL: Final = frozenset({"Sequential", "ParametrizedSequential"})
_FUSED: Final = ("torch.ao.nn.intrinsic.modules.fused", "torch.ao.nn.intrinsic.qat.modules")
"""The modules of torch that define named subclasses of `Sequential`."""

_RECORDS_CALLS: Final = "DEBUG"
_GRADIENT: Final = "grad"


class ParamUsageInfo(NamedTuple):
    """Parameters that are used together.

    Either a called module and all its parameters, used or not, or the module in whose `forward` a torch call used
    parameters, and these.

    Attributes:
        module: its qualified name.
        named_params: for each parameter its name in FSDP's terms, and its qualified name. The first is the name within
            the called module ("weight") or, for a torch call, the qualified name itself.
    """

    module: str
    named_params: list[tuple[str, str]]


class ExecutionOrder(msgspec.Struct, frozen=True):
    """What one call of a model ran, in order.

    Qualified names are torch's, as for `get_submodule` and `get_parameter`: "" is the model itself. A module or
    parameter with several names has its first.

    Attributes:
        root: the name of the model in the trace, "model".
        type: its class.
        module_forward_order: the qualified names of the modules, one for each call, in the order in which the calls
            began. The first is "", the model.
        param_forward_order: the qualified names of the parameters, by first use. None if unknown, because the model was
            not recorded at level DEBUG.
        module_to_param_usage_infos: for each called module, what its last call used. None likewise.
        unseen: called modules with parameters, in which no torch call was recorded: blacklisted, compiled, or at
            another level. It is unknown which parameters they use.
        is_whole: whether the trace has the end of the call.
        raised: whether it ended with an exception.
        call: the record of the call.
    """

    root: str
    type: str
    module_forward_order: list[str]
    param_forward_order: list[str] | None
    module_to_param_usage_infos: dict[str, list[ParamUsageInfo]] | None
    unseen: list[str]
    is_whole: bool
    raised: bool
    call: events.CallModule


def execution_order(
    happened: Iterable[AnyEvent],
    leaf_rule: LeafRule = "fsdp",
    *,
    is_wanted: Callable[[CallModule, Module | None], bool] | None = None,
    names: Names | None = None,
) -> ExecutionOrder:
    """The order of the first call of a module in `happened`, or of the first wanted one.

    Args:
        happened: events in order, with definitions before their first use, as in a file of a trace or in what an
            observer received. Nothing is read after the end of the call.
        leaf_rule: "fsdp" for FSDP's rule: a module defined by torch.nn is a leaf that uses all its parameters when it
            is called, and its submodules do not appear; `nn.Sequential` and the model itself are not leaves. None for
            every call, and the parameters that torch calls used.
        is_wanted: whether a call, given with the definition of its module, is wanted.
        names: further definitions.

    Raises:
        NoCallError: if there is no such call.
        UnknownClassesError: if the trace lacks the classes' modules, which the leaf rule needs.
        OrderTooLongError: if the call exceeds the limits.
    """
    definitions = _Definitions(names)
    follower: _Follower | None = None
    for event in happened:
        if isinstance(event, (events.Module, events.StateTensor)):
            definitions.learn(event)
        elif follower is not None:
            follower.take(event)
            if follower.is_done:
                break
        elif isinstance(event, events.CallModule) and (
            is_wanted is None or is_wanted(event, definitions.modules.get(event.module))
        ):
            follower = _Follower(event, definitions, leaf_rule)
    if follower is None:
        raise NoCallError
    return _Answer(follower, definitions).order()


def is_leaf_of_fsdp(module: Module) -> bool:
    """Whether `torch.fx` treats a module as a leaf: torch.nn defines its class, and it is not an `nn.Sequential`."""
    defined_in = module.module_of_type
    if not defined_in.startswith(_OF_TORCH):
        return False
    return module.type not in _SEQUENTIAL and not defined_in.startswith(_FUSED)


class _Definitions:
    """The modules and parameters defined so far, by id and by name."""

    def __init__(self, names: Names | None) -> None:
        self.modules: dict[int, Module] = {}
        self.parameters: dict[int, StateTensor] = {}
        self._by_name: dict[str, int] = {}
        self._module_by_name: dict[str, int] = {}
        if names is not None:
            for event in (*names.modules.values(), *names.tensors.values()):
                self.learn(event)

    def learn(self, event: Event) -> None:
        """Note a definition."""
        if isinstance(event, events.Module):
            self.modules[event.id] = event
            self._module_by_name[event.name] = event.id
        elif isinstance(event, events.Parameter):
            self.parameters[event.id] = event
            self._by_name[event.name] = event.id

    def name_of(self, id_: int) -> str:
        """The name of a module; "" if there is none."""
        module = self.modules.get(id_)
        return module.name if module is not None else ""

    def parameters_in(self, words: Iterable[str]) -> tuple[int, ...]:
        """The parameters among descriptions of tensors, with repetitions."""
        return tuple(id_ for word in words if (id_ := self._by_name.get(word)) is not None)

    def within(self, id_: int) -> int:
        """The module inside a wrapper of PyTorch ("DataParallel(model)"); any other module itself."""
        module = self.modules.get(id_)
        if module is None or not module.name.startswith(f"{module.type}("):
            return id_
        return self._module_by_name.get(module.name[len(module.type) + 1 : -1], id_)


class _Called(NamedTuple):
    """A call of a module: its enclosing call, and whether it is a leaf."""

    module: int
    parent: int
    is_leaf: bool


class _Used(NamedTuple):
    """A torch call in the `forward` of a module that used these parameters."""

    module: int
    parameters: tuple[int, ...]


class _Open:
    """An open call of a module."""

    __slots__ = ("has_calls", "id", "is_leaf", "is_wrapper", "module", "unseen_before")

    def __init__(self, id_: int, module: int, unseen_before: int, *, is_leaf: bool) -> None:
        self.id = id_
        self.module = module
        self.is_leaf = is_leaf
        self.is_wrapper = id_ != module
        self.has_calls = False
        self.unseen_before = unseen_before


class _Follower:
    """Follows one call of a module from start to end, on its thread.

    Attributes:
        call: the record of it.
        root: the id of the called module.
        happened: the module calls, and the uses of parameters outside of leaves, in order.
        unseen: the modules in which no call of torch was recorded.
        is_done: whether the call has ended.
        raised: whether it ended with an exception.
    """

    def __init__(self, call: CallModule, definitions: _Definitions, leaf_rule: LeafRule) -> None:
        self.call = call
        self.root = definitions.within(call.module)
        self.happened: list[_Called | _Used] = []
        self.unseen: list[int] = []
        self.is_done = False
        self.raised = False
        self.follows_leaf_rule = leaf_rule is not None
        self._definitions = definitions
        self._open: list[_Open] = []
        self._open_ids: Counter[int] = Counter()
        self._backward_passes = 0
        self._takers: dict[type, Callable[[Any], None]] = {
            events.CallModule: self._call_module,
            events.ReturnModule: self._return_module,
            events.CallFunction: self._call_torch,
            events.CallMethod: self._call_torch,
            events.ReadValue: self._call_torch,
            events.GetAttr: self._read_attribute,
        }
        self._call_module(call)

    def take(self, event: AnyEvent) -> None:
        """Note an event."""
        if getattr(event, "thread", None) != self.call.thread:
            return
        if isinstance(event, events.Backward):
            self._backward_passes += 1
        elif isinstance(event, events.BackwardEnd):
            self._backward_passes -= self._backward_passes > 0
        elif not self._backward_passes:  # Recomputation by checkpoints does not count.
            taker = self._takers.get(type(event))
            if taker is not None:
                taker(event)

    def _call_module(self, event: CallModule) -> None:
        module = self._definitions.within(event.module)
        self._open_ids[event.module] += 1
        if not self._open:
            self._begin(event, module, is_leaf=False)
        elif self._open[-1].is_wrapper and self._open[-1].module == module:
            self._enter(event, module, is_leaf=self._open[-1].is_leaf)
        elif self._open[-1].is_leaf:
            self._enter(event, module, is_leaf=True)
        else:
            self._begin(event, module, is_leaf=self._is_leaf(module))

    def _begin(self, event: CallModule, module: int, *, is_leaf: bool) -> None:
        self.happened.append(_Called(module, self._open[-1].module if self._open else 0, is_leaf))
        self._enter(event, module, is_leaf=is_leaf)

    def _enter(self, event: CallModule, module: int, *, is_leaf: bool) -> None:
        self._open.append(_Open(event.module, module, len(self.unseen), is_leaf=is_leaf))
        self._keep_within_bounds()

    def _is_leaf(self, module: int) -> bool:
        if not self.follows_leaf_rule:
            return False
        definition = self._definitions.modules.get(module)
        return definition is not None and is_leaf_of_fsdp(definition)

    def _return_module(self, event: events.ReturnModule) -> None:
        if not self._open_ids[event.module]:
            return
        while self._open:
            call = self._open.pop()
            self._open_ids[call.id] -= 1
            self._end(call)
            if call.id == event.module:
                break
        if not self._open:
            self.is_done, self.raised = True, event.raised

    def _end(self, call: _Open) -> None:
        """Note whether it is known what the call did."""
        has_calls = call.has_calls or call.is_leaf
        if not has_calls:  # Then its inner calls are unknown too.
            del self.unseen[call.unseen_before :]
            self.unseen.append(call.module)
        elif self._open:
            self._open[-1].has_calls = True

    def _call_torch(self, event: events.CallFunction | events.ReadValue) -> None:
        if not self._open[-1].is_leaf:
            self._open[-1].has_calls = True
            if not asks_only(event):
                self._use(self._definitions.parameters_in(event.inputs))

    def _read_attribute(self, event: events.GetAttr) -> None:
        if event.value_id and event.target != _GRADIENT and not self._open[-1].is_leaf:
            self._use(self._definitions.parameters_in((event.owner,)))

    def _use(self, parameters: tuple[int, ...]) -> None:
        if parameters:
            self.happened.append(_Used(self._open[-1].module, parameters))
            self._keep_within_bounds()

    def _keep_within_bounds(self) -> None:
        if len(self.happened) + len(self._open) > MOST_EVENTS:
            raise OrderTooLongError


class _Answer:
    """Converts the result to names."""

    def __init__(self, follower: _Follower, definitions: _Definitions) -> None:
        self._follower = follower
        self._definitions = definitions
        self._root_name = definitions.name_of(follower.root)
        names = [
            (name, id_, number)
            for id_, tensor in definitions.parameters.items()
            if not tensor.removed
            for number, name in enumerate((tensor.name, *tensor.aliases))
        ]
        self._names = sorted(names)
        self._characters = 0
        self._kept = 0
        self._parameters_of: dict[int, list[tuple[str, int]]] = {}
        self._qualified: dict[int, str] = {id_: name for name, id_ in self._named_parameters(follower.root)}

    def order(self) -> ExecutionOrder:
        """The result.

        Raises:
            UnknownClassesError: if the leaf rule cannot be followed.
            OrderTooLongError: if it exceeds the limits.
        """
        follower, modules = self._follower, self._definitions.modules
        if follower.follows_leaf_rule and modules and not any(each.module_of_type for each in modules.values()):
            raise UnknownClassesError
        root = modules.get(follower.root)
        has_parameters = root is not None and root.level == _RECORDS_CALLS
        calls = [each for each in follower.happened if isinstance(each, _Called)]
        return ExecutionOrder(
            root=self._root_name,
            type=root.type if root is not None else "",
            module_forward_order=[self._module_name(each.module) for each in calls],
            param_forward_order=self._parameter_order() if has_parameters else None,
            module_to_param_usage_infos=self._usage_infos() if has_parameters else None,
            unseen=self._unseen() if has_parameters else [],
            is_whole=follower.is_done,
            raised=follower.raised,
            call=follower.call,
        )

    def _parameter_order(self) -> list[str]:
        used: dict[int, None] = {}
        for each in self._follower.happened:
            if isinstance(each, _Used):
                used.update(dict.fromkeys(each.parameters))
            elif each.is_leaf:
                used.update(dict.fromkeys(id_ for _, id_ in self._named_parameters(each.module)))
        return [self._qualified[id_] for id_ in used if id_ in self._qualified]

    def _usage_infos(self) -> dict[str, list[ParamUsageInfo]]:
        infos: dict[int, list[ParamUsageInfo]] = {}
        for each in self._follower.happened:
            if isinstance(each, _Used):
                qualified = [self._qualified[id_] for id_ in each.parameters if id_ in self._qualified]
                self._add(infos[each.module], each.module, [(name, name) for name in qualified])
                continue
            named = self._local_names(each.module)
            if each.parent:
                self._add(infos[each.parent], each.module, named)
            infos[each.module] = []
            if each.is_leaf:
                self._add(infos[each.module], each.module, named)
        return {self._module_name(id_): of_module for id_, of_module in infos.items()}

    def _add(self, infos: list[ParamUsageInfo], module: int, named: list[tuple[str, str]]) -> None:
        if named:
            self._characters += sum(len(name) + len(qualified) + 8 for name, qualified in named)
            if self._characters > _MOST_CHARACTERS:
                raise OrderTooLongError
            infos.append(ParamUsageInfo(self._module_name(module), named))

    def _local_names(self, module: int) -> list[tuple[str, str]]:
        """The `named_parameters` of a module: for each, the name within it and the qualified name."""
        return [(name, self._qualified.get(id_, name)) for name, id_ in self._named_parameters(module)]

    def _named_parameters(self, module: int) -> list[tuple[str, int]]:
        """The parameters of a module and those below it, without duplicates, by their first name within it."""
        found = self._parameters_of.get(module)
        if found is None:
            prefix = f"{self._definitions.name_of(module)}."
            start = bisect_left(self._names, (prefix,))
            below = []
            for position in range(start, len(self._names)):
                name, id_, number = self._names[position]
                if not name.startswith(prefix):
                    break
                below.append((id_, number, name[len(prefix) :]))
            self._kept += len(below)
            if self._kept > _MOST_NAMES:
                raise OrderTooLongError
            first: dict[int, str] = {}
            for id_, _, name in sorted(below):
                first.setdefault(id_, name)
            found = self._parameters_of[module] = [(name, id_) for id_, name in first.items()]
        return found

    def _module_name(self, module: int) -> str:
        """The qualified name of a module; its name in the trace if it is not part of the model."""
        name = self._definitions.name_of(module)
        if module == self._follower.root:
            return ""
        name = name or f"#{module}"
        self._characters += len(name)
        if self._characters > _MOST_CHARACTERS:
            raise OrderTooLongError
        return name.removeprefix(f"{self._root_name}.")

    def _unseen(self) -> list[str]:
        with_parameters = (id_ for id_ in dict.fromkeys(self._follower.unseen) if self._named_parameters(id_))
        return [self._module_name(id_) for id_ in with_parameters]
